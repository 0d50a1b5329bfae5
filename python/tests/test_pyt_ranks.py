"""Peers whose program is started by torchrun, as several processes that train with DistributedDataParallel."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from typing import Any, Callable

import pytest

from fakeswarm import FakeSwarm

torch = pytest.importorskip("torch")

from swarmlearning import errors
from swarmlearning.pyt import SwarmCallback

MakeSwarm = Callable[..., FakeSwarm]

PROGRAM = """
import hashlib, json, os, sys
import torch, torch.distributed as dist
from torch import nn
from swarmlearning.pyt import SwarmCallback

options = json.loads(sys.argv[1])
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(options["seed"])
module = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
model = nn.parallel.DistributedDataParallel(module)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
swarm = SwarmCallback(syncFrequency=3, minPeers=2, model=model, totalEpochs=2,
                      adsValData=torch.utils.data.TensorDataset(torch.randn(8, 4), torch.arange(8) % 2))
swarm.on_train_begin()
torch.manual_seed(rank)
if options.get("die") == rank:
    open(options["ready"], "w").write(str(os.getpid()))
for epoch in range(2):
    for batch in range(7):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(torch.randn(4, 4)), torch.arange(4) % 2)
        loss.backward()
        optimizer.step()
        swarm.on_batch_end(samples=4)
    swarm.on_epoch_end(epoch)
swarm.on_train_end()
state = module.state_dict().values()
digest = hashlib.sha256(b"".join(value.numpy().tobytes() for value in state)).hexdigest()
with open(options["out"] + str(rank), "w") as out:
    json.dump({"digest": digest, "round": swarm.round, "samples": swarm.samples}, out)
dist.destroy_process_group()
"""


def torchrun(swarm: FakeSwarm, peer: int, tmp_path: pathlib.Path, ranks: int, **options: Any) -> Any:
    """Start a peer's program as torchrun does on one host."""
    (tmp_path / "train.py").write_text(PROGRAM)
    options = {"seed": peer, "out": str(tmp_path / f"peer-{peer}-"), **options}
    env = {
        **os.environ,
        "SWARM_BRIDGE_DIR": swarm.peers[peer].directory,
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "OMP_NUM_THREADS": "1",
        # torchrun of torch 1.13 fails on Python 3.11 without them.
        "PET_REDIRECTS": "1",
        "PET_TEE": "1",
    }
    command = ["-m", "torch.distributed.run", f"--nproc_per_node={ranks}", "--standalone", "--max_restarts=0"]
    return subprocess.Popen(
        [sys.executable, *command, f"--log_dir={tmp_path}/log", str(tmp_path / "train.py"), json.dumps(options)], env=env,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip


def test_torchrun_is_one_peer(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    """Two peers of two ranks: all four processes end with the same bytes, under the names that one rank has."""
    swarm = make_swarm(2, poll=0.2)
    peers = [torchrun(swarm, peer, tmp_path, 2) for peer in (0, 1)]
    for process in peers:
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, out
    results = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("peer-*"))]
    assert len(results) == 4
    assert all(result == results[0] for result in results), results
    assert results[0]["samples"] == 2 * 2 * 7 * 4
    opened = [entry[2] for entry in swarm.log if entry[1] == "/v1/session"]
    assert len(opened) == 2, "rank 0 alone opens a session"
    assert opened[0]["tensors"][0]["name"] == "0.weight"


def test_a_killed_rank_ends_its_peer(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    """Rank 1 is killed while its peer waits for another one: the swarm is told, and nobody waits for ever."""
    swarm = make_swarm(2, poll=0.2)
    ready = tmp_path / "ready"
    process = torchrun(swarm, 0, tmp_path, 2, die=1, ready=str(ready))
    other = torchrun(swarm, 1, tmp_path, 1, out=str(tmp_path / "other-"))
    end = time.monotonic() + 60
    while not ready.exists() or not ready.read_text():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.01)
    os.kill(int(ready.read_text()), signal.SIGKILL)
    out, _ = process.communicate(timeout=60)
    assert process.returncode != 0, out
    assert ("sl-0", "/v1/abort") in [entry[:2] for entry in swarm.log], "the swarm is told"
    os.killpg(other.pid, signal.SIGKILL)
    other.communicate(timeout=60)


def test_sharded_models_are_refused() -> None:
    class FullyShardedDataParallel(torch.nn.Module):  # type: ignore[misc]
        """As torch names its own, which needs processes."""

    with pytest.raises(errors.ParameterError, match="model: is sharded among the ranks"):
        SwarmCallback(syncFrequency=1, minPeers=1, model=torch.nn.Sequential(FullyShardedDataParallel()))
