"""Training that goes on while a merge travels, in PyTorch."""

from __future__ import annotations

import pathlib
from typing import Any, Callable

import numpy as np
import pytest

from fakeswarm import FakeSwarm
from helpers import construct, events, together

torch = pytest.importorskip("torch")

from torch import nn

from swarmlearning._overlap import carry
from swarmlearning.pyt import SwarmCallback

MakeSwarm = Callable[..., FakeSwarm]
BATCHES, INTERVAL = 10, 3


class Net(nn.Module):
    """Tied and frozen parameters, batch norm with its statistics and counter, a bfloat16 layer, one that stays local."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.first.bias.requires_grad_(False)
        self.norm = nn.BatchNorm1d(3)
        self.short = nn.Linear(3, 3).to(torch.bfloat16)
        self.head = nn.Linear(3, 1)

    def forward(self, x: Any) -> Any:
        x = self.norm(self.second(torch.tanh(self.first(x))))
        return self.head(self.short(x.to(torch.bfloat16)).to(torch.float32))


def data(peer: int) -> Any:
    return torch.randn(BATCHES, 8, 3, generator=torch.Generator().manual_seed(peer)) * (1 + 4 * peer)


def step(model: Any, optimizer: Any, x: Any) -> None:
    optimizer.zero_grad()
    (model(x) - x.sum(dim=1, keepdim=True)).pow(2).mean().backward()
    optimizer.step()


def state(model: Any) -> dict[str, Any]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def mean(states: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge as the fake swarm does, which cuts bfloat16."""
    merged = {}
    for name, first in states[0].items():
        if name.startswith("head"):
            continue
        value = sum(other[name].to(torch.float64) for other in states) / len(states)
        if first.dtype == torch.bfloat16:
            cut = value.to(torch.float32).view(torch.int32) >> 16 << 16
            merged[name] = cut.view(torch.float32).to(torch.bfloat16)
        else:
            merged[name] = value.round().to(first.dtype) if first.dtype == torch.int64 else value.to(first.dtype)
    return merged


def carried(name: str, sent: Any, merged: Any, now: Any, parameters: set[str]) -> Any:
    if not now.is_floating_point():
        return torch.where(now == sent, merged, now)
    if name.endswith("running_var"):
        return torch.maximum(merged + (now - sent), torch.minimum(merged, now))
    if name.endswith("running_mean"):
        one_side = (torch.sign(merged) == torch.sign(now)) & (torch.sign(now) == torch.sign(sent))
        least = torch.where(merged.abs() < now.abs(), merged, now)
        total = merged + (now - sent)
        return torch.where(one_side & (total * torch.sign(now) < least.abs()), least, total)
    assert name in parameters
    wide = now.to(torch.float32) - sent.to(torch.float32)
    return (merged.to(torch.float32) + wide).to(now.dtype)


def simulate() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Give the peers' states before the end, as they would be computed in turn, and the merged models."""
    nets = [Net(peer) for peer in range(2)]
    parameters = {name for name, value in nets[0].state_dict(keep_vars=True).items() if isinstance(value, nn.Parameter)}
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.002, momentum=0.9) for net in nets]
    models = [mean([state(net) for net in nets])]
    sent: list[Any] = [None, None]

    def load(net: Any, values: dict[str, Any]) -> None:
        net.load_state_dict({**net.state_dict(), **values})

    def take(i: int) -> None:
        if sent[i] is not None:
            now = state(nets[i])
            load(nets[i], {n: carried(n, sent[i][n], m, now[n], parameters) for n, m in models[-1].items()})
        sent[i] = state(nets[i])

    for net in nets:
        load(net, models[0])
    for batch in range(BATCHES):
        for i in range(2):
            step(nets[i], optimizers[i], data(i)[batch])
            if (batch + 1) % INTERVAL == 0:
                take(i)
        if (batch + 1) % INTERVAL == 0:
            models.append(mean(sent))
    ends = [state(net) for net in nets]
    for i in range(2):
        take(i)
    models.append(mean(sent))
    return ends, models


def test_two_peers_compute_what_one_after_another_would(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    swarm = make_swarm(2, poll=0.05)
    nets = [Net(peer) for peer in range(2)]
    places = [[value.data_ptr() for value in net.parameters()] for net in nets]
    ends: list[Any] = [None, None]

    def program(peer: int) -> None:
        net = nets[peer]
        callback = construct(
            swarm.peers[peer].directory,
            lambda: SwarmCallback(INTERVAL, 2, model=net, totalEpochs=1, overlap=True, localLayers="head"),
            tmp_path / str(peer),
        )
        optimizer = torch.optim.SGD(net.parameters(), lr=0.002, momentum=0.9)
        callback.on_train_begin()
        for x in data(peer):
            step(net, optimizer, x)
            callback.on_batch_end()
        ends[peer] = state(net)
        callback.on_train_end()

    together(lambda: program(0), lambda: program(1))
    want, models = simulate()
    torch.set_num_threads(threads)
    for peer in range(2):
        for name, value in ends[peer].items():
            assert torch.equal(value, want[peer][name]), name
        for name, value in models[-1].items():
            assert torch.equal(nets[peer].state_dict()[name], value), name
        # The counter has gone on, and the frozen bias is the mean of both.
        assert int(ends[peer]["norm.num_batches_tracked"]) == BATCHES
        assert torch.equal(ends[peer]["first.bias"], models[0]["first.bias"])
        assert nets[peer].second.weight is nets[peer].first.weight
        assert [value.data_ptr() for value in nets[peer].parameters()] == places[peer]
        assert events(tmp_path / str(peer))[-1]["rounds"] == len(models) == BATCHES // INTERVAL + 2
    assert not torch.equal(ends[0]["head.weight"], ends[1]["head.weight"])


@pytest.mark.parametrize("hook", [True, False])
def test_fedprox_pulls_towards_the_last_merged_model(make_swarm: MakeSwarm, hook: bool) -> None:
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 1.0)
    swarm = make_swarm(1)
    callback = construct(
        swarm.peers[0].directory,
        lambda: SwarmCallback(2, 1, model=model, totalEpochs=1, overlap=True, fedProxMu=0.5, fedProxHook=hook),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    callback.on_train_begin()
    want, centre, merged = 1.0, 1.0, 1.0
    for batch in range(1, 8):
        optimizer.zero_grad()
        # The loss 3w has the gradient 3.
        loss = model(torch.tensor([[3.0]])).sum()
        (loss if hook else loss + callback.fedprox_loss()).backward()
        optimizer.step()
        want -= 0.1 * (3 + 0.5 * (want - centre))
        callback.on_batch_end()
        if batch % 2 == 0:
            # What was handed in two batches ago comes now: alone, that is what this peer had.
            if batch > 2:
                centre = merged
            merged = want
        assert float(model.weight.detach()) == pytest.approx(want, rel=1e-5)
    callback.on_train_end()


def test_the_merged_model_is_measured(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    swarm = make_swarm(2, poll=0.05)
    models = [nn.Linear(1, 1, bias=False) for _ in range(2)]
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(4, 1), torch.zeros(4, 1)))

    def program(peer: int) -> None:
        model = models[peer]
        nn.init.constant_(model.weight, 2.0 * peer)
        callback = construct(
            swarm.peers[peer].directory,
            lambda: SwarmCallback(1, 2, model=model, totalEpochs=1, overlap=True, useAdaptiveSync=True,
                                  adsValData=loader, lossFunction="L1Loss"),
            tmp_path / str(peer),
        )  # fmt: skip
        callback.on_train_begin()
        for _ in range(4):
            with torch.no_grad():
                model.weight += 1 + 2 * peer
            callback.on_batch_end()
        callback.on_train_end()

    together(lambda: program(0), lambda: program(1))
    # The first is 1; then both add 2 in the mean, which is merged one batch later.
    for peer in range(2):
        losses = [event["loss"] for event in events(tmp_path / str(peer)) if event["event"] == "merge"]
        assert losses == [1.0, 3.0, 5.0, 7.0, 9.0]
        assert float(models[peer].weight.detach()) == 9.0


def test_bfloat16_is_rounded_as_torch_does() -> None:
    random = np.random.default_rng(1)
    s, m, w = (random.integers(0, 1 << 16, 1 << 16, dtype=np.uint16) for _ in range(3))
    # Also numbers that lie near each other, where the sum is about a tie.
    s[::2] = w[::2] ^ random.integers(0, 1 << 9, 1 << 15, dtype=np.uint16)

    def wide(bits: Any) -> Any:
        return torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16).to(torch.float32)

    want = (wide(m) + (wide(w) - wide(s))).to(torch.bfloat16)
    sent = s.copy()
    carry("bfloat16", True, sent, m, w)
    assert torch.equal(torch.isnan(want), torch.isnan(wide(sent)))
    finite = ~torch.isnan(want)
    assert torch.equal(want[finite].to(torch.float32), wide(sent)[finite])
