#!/usr/bin/env python3
"""What ranks cost: rank 0's merge of a peer of several ranks, divided by the same of a peer of one.

python/bench/ranks.py [--ranks 2] [--size 100] [--rounds 8] [--runs 3] [--device cpu]

Trains nothing: two peers in a swarm of processes on this machine (swarmctl local run) merge a torch model of --size
MiB. The first peer has as many ranks as said, the other one has one. Runs with one rank and with several take turns, so
that both see the same machine. Prints medians of rank 0's seconds for a merge, and their ratio, as one line of JSON.
With --device cuda all models are on one GPU, and a peer of one rank with its model on the CPU is measured beside.
Needs bin/swarmctl or SWARM_BIN, and torch for the interpreter that runs it.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve()


def train(ranks: int, mebibytes: int, rounds: int, device: str, store: str) -> None:
    """Merge again and again, as the program of one peer; forks its other ranks."""
    ranks = ranks if os.environ["SWARM_PEER"] == "sl-0" else 1
    rank = 0
    for other in range(1, ranks):
        if os.fork() == 0:
            rank = other
            break
    # Only now: threads do not outlive a fork, and the other side needs neither.
    import torch  # noqa: PLC0415

    from swarmlearning.pyt import SwarmCallback  # noqa: PLC0415

    torch.set_num_threads(1)
    if ranks > 1:
        torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    layers = [torch.nn.Linear(512, 512, bias=False) for _ in range(mebibytes)]  # each of 1 MiB
    swarm = SwarmCallback(syncFrequency=1, minPeers=2, model=torch.nn.Sequential(*layers).to(device))
    swarm.on_train_begin()
    for _ in range(rounds):
        swarm.on_batch_end()
    swarm.on_train_end()


def measure(ranks: int, mebibytes: int, rounds: int, device: str) -> list[float]:
    """Give the seconds of each of rank 0's merges but the first, for which the peers come together."""
    swarmctl = pathlib.Path(os.environ.get("SWARM_BIN") or HERE.parents[2] / "bin") / "swarmctl"
    with tempfile.TemporaryDirectory() as folder:
        out, models = pathlib.Path(folder, "out"), pathlib.Path(folder, "model")
        models.mkdir()
        (models / "ranks.py").write_text(HERE.read_text())
        program = ["--model-dir", models, "--model-program", "ranks.py", "--python", sys.executable]
        program += ["--model-program-args", f"--program {ranks} {mebibytes} {rounds} {device} {folder}/store"]
        command = [swarmctl, "local", "run", "--peers", "2", "--platform", "PYT", "--timeout", "10m", "--quiet"]
        command += [*program, "--out", out, "-e", "GLOO_SOCKET_IFNAME=lo"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        events = [
            json.loads(line) for path in out.glob("sl-0/swarm-metrics.jsonl") for line in path.read_text().splitlines()
        ]
    seconds = [event["seconds"] for event in events if event["event"] == "merge"][1:]
    if len(seconds) < rounds:
        raise SystemExit(f"{swarmctl} made {len(seconds)} of {rounds} merges:\n{done.stdout}")
    return seconds


def main() -> None:
    """Take turns and print what was measured."""
    if sys.argv[1:2] == ["--program"]:
        train(*map(int, sys.argv[2:5]), *sys.argv[5:7])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--size", type=int, default=100, help="MiB")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    given = parser.parse_args()
    one, several, on_cpu = [], [], []
    for _ in range(given.runs):
        one += measure(1, given.size, given.rounds, given.device)
        several += measure(given.ranks, given.size, given.rounds, given.device)
        on_cpu += [] if given.device == "cpu" else measure(1, given.size, given.rounds, "cpu")
    alone, together = statistics.median(one), statistics.median(several)
    found = {"ranks": given.ranks, "size_mib": given.size, "merges": len(one)}
    found.update(one_rank_seconds=round(alone, 4), ranks_seconds=round(together, 4), ratio=round(together / alone, 3))
    if on_cpu:
        beside = statistics.median(on_cpu)
        found.update(device=given.device, cpu_seconds=round(beside, 4), device_ratio=round(alone / beside, 3))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
