"""What the experiments share: images for the peers of each case, and swarms of three peers that train on them."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PEERS = 3
UNLIMITED = -1

# By case: which part of the images each peer has, its epochs, and after how many batches it ends at the latest.
CASES: dict[str, tuple[str, tuple[int, int, int], int]] = {
    "iid": ("shares", (12, 12, 12), UNLIMITED),
    "skew": ("classes", (5, 15, 15), UNLIMITED),
    "cnn": ("thirds", (1, 15, 15), UNLIMITED),
    "skewed": ("classes", (1000, 1000, 1000), 192),
    "unequal": ("shares", (1000, 1000, 1000), 64),
}


def shards(folder: pathlib.Path, seed: int) -> None:
    """Write the images of each peer in each case."""
    import numpy as np  # noqa: PLC0415 - drawing needs none of these
    from sklearn.datasets import load_digits  # noqa: PLC0415
    from sklearn.model_selection import train_test_split  # noqa: PLC0415

    data = load_digits()
    x, y = (data.data / 16.0).astype(np.float32), data.target.astype(np.int64)
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.25, stratify=y, random_state=seed)
    rows = np.random.default_rng(seed).permutation(len(x))
    parts = {
        "shares": np.split(rows, [int(0.08 * len(rows)), int(0.40 * len(rows))]),
        "classes": [rows[np.isin(y[rows], digits)] for digits in ([0, 1, 2, 3], [4, 5, 6], [7, 8, 9])],
        "thirds": np.array_split(rows, PEERS),
    }
    for case, (part, epochs, batches) in CASES.items():
        for peer, mine in enumerate(parts[part]):
            held = len(mine) // 5 if part == "thirds" else 0
            np.savez(
                folder / f"{case}-{peer}.npz",
                x=x[mine[held:]], y=y[mine[held:]], x_val=x[mine[:held]], y_val=y[mine[:held]],
                x_test=x_test, y_test=y_test, epochs=epochs[peer], batches=batches,
            )  # fmt: skip


def train(swarmctl: pathlib.Path, data: pathlib.Path, env: Mapping[str, object], *options: str) -> dict[str, Any]:
    """Train in a swarm, and give each peer's result and how many rounds it had."""
    with tempfile.TemporaryDirectory(prefix="experiment-") as out:
        command = [
            "nice", str(swarmctl), "local", "run", "--peers", str(PEERS), "--platform", "PYT", "--model-dir", str(HERE),
            "--model-program", "train.py", "--data-dir", str(data), "--out", out, "--quiet", "--timeout", "10m",
            "--python", sys.executable, "-e", "PEER={peer}", *options,
        ]  # fmt: skip
        for name, value in env.items():
            command += ["-e", f"{name}={value}"]
        started = time.monotonic()
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        results = [pathlib.Path(out, f"sl-{peer}", "result.json") for peer in range(PEERS)]
        if not all(path.exists() for path in results):  # the exit code also tells of warnings
            raise SystemExit(f"{' '.join(command)}\n{done.stdout}\nthis swarm came to no end")
        read = [json.loads(path.read_text()) for path in results]
        rounds = json.loads(pathlib.Path(out, "summary.json").read_text())["rounds"]
    return {
        "accuracy": [round(one["accuracy"], 4) for one in read],
        "epochs": [one["epochs"] for one in read],
        "rounds": rounds if isinstance(rounds, int) else len(rounds),
        "seconds": round(time.monotonic() - started, 1),
        "merges": [len(one["curve"]) for one in read],
        "curve": max((one["curve"] for one in read), key=len),
    }


def stored(path: pathlib.Path) -> list[dict[str, Any]]:
    """Read results of before."""
    return json.loads(path.read_text()) if path.exists() else []


def store(path: pathlib.Path, results: list[dict[str, Any]]) -> None:
    """Write results, one a line, and say the last one."""
    path.write_text("[\n" + ",\n".join(json.dumps(one) for one in results) + "\n]\n")
    print(json.dumps({k: v for k, v in results[-1].items() if k != "curve"}), flush=True)
