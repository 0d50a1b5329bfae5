"""Run one of the examples as N processes against the fake swarm and alone: python tests/simulate.py EXAMPLE [PEERS].

Prints accuracies and times; for people who tune an example, and for the tests.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any

from fakeswarm import FakeSwarm

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "python" / "src"


def environment(data: pathlib.Path, model: pathlib.Path, metrics: pathlib.Path, peers: int) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SWARM_")}
    path = os.pathsep.join(filter(None, [str(SOURCE), kept.get("PYTHONPATH", "")]))
    return {**kept, "DATA_DIR": str(data), "MODEL_DIR": str(model), "MIN_PEERS": str(peers), "PYTHONPATH": path,
            "SWARM_METRICS_FILE": str(metrics), "PYTHONDONTWRITEBYTECODE": "1"}  # fmt: skip


def start(example: str, env: dict[str, str], log: pathlib.Path) -> subprocess.Popen[bytes]:
    with open(log, "wb") as out:
        program = [sys.executable, str(ROOT / "examples" / example / "train.py")]
        return subprocess.Popen(program, env=env, stdout=out, stderr=subprocess.STDOUT)


def last(metrics: pathlib.Path) -> dict[str, Any]:
    events = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert events[-1]["event"] == "end"
    return events[-1]


def simulate(example: str, peers: int, work: pathlib.Path) -> dict[str, Any]:
    """Split, train as a swarm, train each peer alone; give the end events and the swarm's seconds."""
    split = [sys.executable, str(ROOT / "examples" / example / "split.py"), "--peers", str(peers), "--out", str(work)]
    subprocess.run(split, check=True, stdout=subprocess.DEVNULL)
    result: dict[str, Any] = {}
    for kind in ("swarm", "alone"):
        began = time.monotonic()
        with FakeSwarm(str(work / f"bridge-{kind}"), peers, poll=5.0) as swarm:
            running = []
            for peer in range(peers):
                base = work / f"{kind}-{peer}"
                env = environment(work / str(peer), base, pathlib.Path(f"{base}.jsonl"), peers)
                env |= {"SWARM_BRIDGE_DIR": swarm.peers[peer].directory} if kind == "swarm" else {"SWARM_LOOPBACK": "1"}
                running.append(start(example, env, pathlib.Path(f"{base}.log")))
            codes = [program.wait(300) for program in running]
        logs = [pathlib.Path(work / f"{kind}-{peer}.log").read_text() for peer in range(peers)]
        assert codes == [0] * peers, "\n".join(logs)
        result[kind] = [last(pathlib.Path(work / f"{kind}-{peer}.jsonl")) for peer in range(peers)]
        result[kind + "_logs"] = logs
        result[kind + "_seconds"] = time.monotonic() - began
    return result


def main() -> None:
    example, peers = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    with tempfile.TemporaryDirectory() as work:
        result = simulate(example, peers, pathlib.Path(work))
    for kind in ("swarm", "alone"):
        print(kind, f"{result[kind + '_seconds']:.1f} s")
        for end in result[kind]:
            print("  loss {loss:.4f} metric {metric:.4f} rounds {rounds} sha256 {model_sha256:.12}".format(**end))


if __name__ == "__main__":
    main()
