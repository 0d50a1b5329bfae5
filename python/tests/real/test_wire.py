"""Differences in 16 bits between real daemons, of a network that learns the digits."""

from __future__ import annotations

import pathlib
import runpy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

from torch import nn
from torch.utils.data import DataLoader

from helpers import construct, events, together
from realswarm import ROOT, RealSwarm, split
from swarmlearning.pyt import SwarmCallback

PEERS = 3
EPOCHS = 12
EXAMPLE = runpy.run_path(str(ROOT / "examples" / "digits-pyt" / "train.py"), run_name="example")


def network() -> Any:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def learn(callback: Any, model: Any, shard: pathlib.Path) -> None:
    """Train as the example does, from a seed: peers of one process share torch's own generator."""
    order = torch.Generator().manual_seed(1)
    data = EXAMPLE["dataset"](shard / "train.npz")
    loader = DataLoader(data, EXAMPLE["BATCH"], shuffle=True, drop_last=True, generator=order)
    optimizer = torch.optim.SGD(model.parameters(), lr=EXAMPLE["LEARNING_RATE"])
    callback.on_train_begin()
    for epoch in range(EPOCHS):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            callback.on_batch_end()
        callback.on_epoch_end(epoch)
    callback.on_train_end()


def run(swarm: RealSwarm, work: pathlib.Path, method: str) -> tuple[float, float]:
    """Train all peers in a contract of this method; give the model's accuracy and the bytes sent in a round by all."""
    work.mkdir()
    models = [network() for _ in range(PEERS)]
    shards, contract = work.parent / "shards", work.name

    def sent() -> int:
        return sum(int(swarm.bridge(peer, "GET", "/v1/status")["merge_sent_bytes"]) for peer in range(PEERS))

    def program(peer: int) -> None:
        callback = construct(
            swarm.bridges[peer],
            lambda: SwarmCallback(
                EXAMPLE["SYNC_FREQUENCY"], PEERS, contract, model=models[peer], totalEpochs=EPOCHS, mergeMethod=method
            ),
            work / str(peer),
        )
        learn(callback, models[peer], shards / str(peer))

    before = sent()
    together(*(lambda peer=peer: program(peer) for peer in range(PEERS)))
    used = sent() - before
    ends = [events(work / str(peer))[-1] for peer in range(PEERS)]
    assert len({end["model_sha256"] for end in ends}) == 1, method
    status = swarm.status(contract)
    assert status["method"] == method
    digests = {swarm.bridge(peer, "GET", "/v1/status")["digest"] for peer in range(PEERS)}
    assert digests == {status["committed"]["digest"]}, method
    test = DataLoader(EXAMPLE["dataset"](shards / "test.npz"), 256)
    accuracy = EXAMPLE["accuracy"](models[0], test, "cpu")
    print(f"{method}: {ends[0]['rounds']} rounds, {used} bytes, accuracy {accuracy:.4f}")
    return accuracy, used / ends[0]["rounds"]


def test_16_bits_learn_what_32_learn(three: RealSwarm, tmp_path: pathlib.Path) -> None:
    split("digits-pyt", tmp_path / "shards", PEERS)
    exact, bytes_32 = run(three, tmp_path / "wire-own", "mean")
    assert exact > 0.9
    for wire in ("bfloat16", "float16"):
        short, bytes_16 = run(three, tmp_path / f"wire-{wire}", f"mean(wire={wire})")
        assert short == pytest.approx(exact, abs=0.02), wire
        assert bytes_16 < 0.6 * bytes_32, wire
