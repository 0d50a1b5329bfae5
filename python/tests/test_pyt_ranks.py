"""Peers whose program is several processes, which train with DistributedDataParallel."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any, Callable

import pytest

from fakeswarm import FakeSwarm
from torchranks import Ended, Server

torch = pytest.importorskip("torch")

from swarmlearning import errors
from swarmlearning.pyt import SwarmCallback

MakeSwarm = Callable[..., FakeSwarm]
Run = Callable[..., "list[Ended]"]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture
def run(server: Server, tmp_path: pathlib.Path) -> Run:
    """Run the ranks of a swarm's peers, of one or of two each; every has what all are given and its own of the lists."""

    def start(
        swarm: FakeSwarm, sizes: tuple[int, ...], own: dict[tuple[int, int], Any] | None = None, **given: Any
    ) -> list[Ended]:
        ranks = []
        for peer, size in enumerate(sizes):
            for rank in range(size):
                ranks.append({"bridge": swarm.peers[peer].directory, "store": str(tmp_path / f"store-{peer}"), "rank": rank,
                              "size": size, "seed": peer, "swarm": {}, **given, **(own or {}).get((peer, rank), {})})  # fmt: skip
        return server.start(tmp_path / "ranks", *ranks).ended()

    return start


def test_ranks_are_one_peer(make_swarm: MakeSwarm, run: Run) -> None:
    """Two peers of two ranks: all four processes end with the same bytes and the same attributes."""
    swarm = make_swarm(2, poll=0.2)
    ended = run(swarm, (2, 2))
    assert [rank.code for rank in ended] == [0] * 4, ended
    assert all(rank.result == ended[0].result for rank in ended)
    assert ended[0].result["samples"] == 2 * 2 * 7 * 4
    opened = [entry[2] for entry in swarm.log if entry[1] == "/v1/session"]
    assert len(opened) == 2, "rank 0 alone opens a session"
    assert opened[0]["tensors"][0]["name"] == "0.weight", "names are those of a peer of one rank"


def test_sharded_models_are_refused() -> None:
    class FullyShardedDataParallel(torch.nn.Module):  # type: ignore[misc]
        """As torch names its own, which needs processes."""

    class Wrapped(FullyShardedDataParallel):
        """As fully_shard makes one of each module's own class."""

    for kind in (FullyShardedDataParallel, Wrapped):
        with pytest.raises(errors.ParameterError, match="model: is sharded among the ranks"):
            SwarmCallback(syncFrequency=1, minPeers=1, model=torch.nn.Sequential(kind()))


def test_torchrun_starts_ranks(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    """The same as torchrun starts it, in the program's own file."""
    swarm = make_swarm(1)
    program = tmp_path / "train.py"
    program.write_text(
        textwrap.dedent("""
        import sys, torch, torch.distributed as dist
        from swarmlearning.pyt import SwarmCallback

        dist.init_process_group("gloo")
        model = torch.nn.Linear(2, 1)
        swarm = SwarmCallback(syncFrequency=1, minPeers=1, model=torch.nn.parallel.DistributedDataParallel(model))
        swarm.on_train_begin()
        swarm.on_train_end()
        open(sys.argv[1] + str(dist.get_rank()), "w").write(repr(model.weight.tolist()))
    """)
    )
    env = {
        **os.environ,
        "SWARM_BRIDGE_DIR": swarm.peers[0].directory,
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        # torchrun of torch 1.13 fails on Python 3.11 without them.
        "PET_REDIRECTS": "1",
        "PET_TEE": "1",
    }
    # --standalone is always at one port, which two tests can't have at once.
    command = ["-m", "torch.distributed.run", "--nnodes=1", "--nproc_per_node=2", "--rdzv_backend=c10d"]
    command += ["--rdzv_endpoint=localhost:0", "--rdzv_id=one", f"--log_dir={tmp_path}/log"]
    done = subprocess.run([sys.executable, *command, str(program), str(tmp_path / "weights-")], env=env, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout
    weights = [path.read_text() for path in sorted(tmp_path.glob("weights-*"))]
    assert len(weights) == 2 and weights[0] == weights[1]
