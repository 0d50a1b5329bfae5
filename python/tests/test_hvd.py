"""Peers whose program is several ranks of Horovod, as horovodrun starts them; for PyTorch."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, Callable

import pytest

from fakeswarm import FakeSwarm

pytest.importorskip("horovod.torch")
from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
from horovod.runner.http.http_server import RendezvousServer

MakeSwarm = Callable[..., FakeSwarm]
Start = Callable[..., "list[subprocess.Popen[str]]"]

PROGRAM = """
import hashlib, json, os, sys
import torch
import horovod.torch as hvd
import swarmlearning._ranks
from swarmlearning.pyt import SwarmCallback

swarmlearning._ranks.BEAT_SECONDS = 0.2
options = json.loads(sys.argv[1])
hvd.init()
rank = hvd.rank()
torch.manual_seed(options["seed"])
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if not options.get("apart"):
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
swarm = SwarmCallback(syncFrequency=3, minPeers=options["peers"], model=model, totalEpochs=2)

def ready(when):
    if options.get("die") == rank and when == options["when"]:
        with open(options["ready"], "w") as out:
            out.write(str(os.getpid()))

ready("waits")
swarm.on_train_begin()
torch.manual_seed(rank)
ready("trains")
for epoch in range(2):
    for batch in range(options["batches"]):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(torch.randn(4, 4)), torch.arange(4) % 2).backward()
        optimizer.step()
        swarm.on_batch_end(samples=4)
    swarm.on_epoch_end(epoch)
swarm.on_train_end()
digest = hashlib.sha256(b"".join(value.numpy().tobytes() for value in model.state_dict().values())).hexdigest()
with open(options["out"] + str(rank), "w") as out:
    json.dump({"digest": digest, "round": swarm.round, "samples": swarm.samples}, out)
"""


def command(swarm: FakeSwarm, peer: int, tmp_path: pathlib.Path, **options: Any) -> tuple[list[str], dict[str, str]]:
    """Give a peer's program and its environment."""
    (tmp_path / "train.py").write_text(PROGRAM)
    options = {"seed": peer, "batches": 7, "peers": len(swarm.peers), "out": str(tmp_path / f"peer-{peer}-"), **options}
    env = {
        **os.environ,
        "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]),
        "SWARM_BRIDGE_DIR": swarm.peers[peer].directory,
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "OMP_NUM_THREADS": "1",
    }
    return [sys.executable, str(tmp_path / "train.py"), json.dumps(options)], env


@pytest.fixture
def start() -> Iterator[Start]:
    """Start two ranks without horovodrun, which kills all of them as soon as one has ended."""
    started: list[subprocess.Popen[str]] = []
    servers: list[RendezvousServer] = []

    def ranks(program: list[str], env: dict[str, str]) -> list[subprocess.Popen[str]]:
        server = RendezvousServer(verbose=0)
        servers.append(server)
        port = server.start()
        plan = get_host_assignments(parse_hosts("localhost:2"), 2)
        server.init(plan)
        for slot in plan:
            own = {f"HOROVOD_{name}": str(value) for name, value in {
                "HOSTNAME": "localhost", "RANK": slot.rank, "SIZE": slot.size, "LOCAL_RANK": slot.local_rank,
                "LOCAL_SIZE": slot.local_size, "CROSS_RANK": slot.cross_rank, "CROSS_SIZE": slot.cross_size,
                "CONTROLLER": "gloo", "CPU_OPERATIONS": "gloo", "GLOO_IFACE": "lo",
                "GLOO_RENDEZVOUS_ADDR": "127.0.0.1", "GLOO_RENDEZVOUS_PORT": port,
            }.items()}  # fmt: skip
            started.append(
                subprocess.Popen(
                    program, env={**env, **own}, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
                )
            )
        return started

    yield ranks
    for process in started:
        process.kill()
        process.communicate()
    for server in servers:
        server.stop()


def test_horovodrun_is_one_peer(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    """A peer of two ranks and one of one: all processes end with the same bytes."""
    swarm = make_swarm(2, poll=0.2)
    processes = []
    for peer, run in ((0, ["horovodrun", "--gloo", "-np", "2", "-H", "localhost:2"]), (1, [])):
        program, env = command(swarm, peer, tmp_path)
        found = [os.path.join(os.path.dirname(sys.executable), name) for name in run[:1]]
        processes.append(
            subprocess.Popen(
                found + run[1:] + program, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
        )
    try:
        for process in processes:
            out, _ = process.communicate(timeout=120)
            assert process.returncode == 0, out
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    results = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("peer-*"))]
    assert len(results) == 3
    assert len({(result["digest"], result["round"]) for result in results}) == 1, results
    assert [result["samples"] for result in results] == [2 * 2 * 7 * 4, 2 * 2 * 7 * 4, 2 * 7 * 4]
    opened = [entry[2] for entry in swarm.log if entry[1] == "/v1/session"]
    assert len(opened) == 2, "rank 0 alone opens a session"
    assert opened[0]["tensors"] == opened[1]["tensors"], "the names are those of a peer of one rank"


@pytest.mark.parametrize("when", ["waits", "trains"])
def test_a_killed_rank_ends_its_peer(make_swarm: MakeSwarm, start: Start, tmp_path: pathlib.Path, when: str) -> None:
    """Rank 1 is killed while rank 0 waits for the other peer or trains: the swarm is told, and nobody waits for ever."""
    swarm = make_swarm(2 if when == "waits" else 1, poll=0.2)
    ready = tmp_path / "ready"
    first, second = start(*command(swarm, 0, tmp_path, die=1, when=when, ready=str(ready), batches=10**6))
    end = time.monotonic() + 60
    while not ready.exists() or not ready.read_text() or "/v1/sync" not in [entry[1] for entry in swarm.log]:
        assert second.poll() is None and first.poll() is None and time.monotonic() < end
        time.sleep(0.01)
    os.kill(int(ready.read_text()), signal.SIGKILL)
    out, _ = first.communicate(timeout=120)
    assert first.returncode != 0, out
    assert when == "trains" or "RankLostError: " in out, out
    assert ("sl-0", "/v1/abort") in [entry[:2] for entry in swarm.log], "the swarm is told"


def test_ranks_that_train_apart_are_found(make_swarm: MakeSwarm, start: Start, tmp_path: pathlib.Path) -> None:
    """A program that forgot hvd.DistributedOptimizer would have rank 0's part alone merged; both ranks say so."""
    for rank in start(*command(make_swarm(1), 0, tmp_path, apart=True)):
        out, _ = rank.communicate(timeout=120)
        assert rank.returncode != 0, out
        assert "UnevenRanksError: rank 1 merges in epoch 1 after 3 batches with other weights than rank 0" in out
        assert "hvd.DistributedOptimizer" in out
