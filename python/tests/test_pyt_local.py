"""FedProx and layers that stay local, in PyTorch."""

from __future__ import annotations

import pathlib
from typing import Any, Callable

import numpy as np
import pytest

from fakeswarm import FakeSwarm, RefusedError
from helpers import construct, events, together

torch = pytest.importorskip("torch")

from torch import nn

from swarmlearning import errors
from swarmlearning.pyt import SwarmCallback

MakeSwarm = Callable[..., FakeSwarm]


def make(swarm: FakeSwarm, peer: int, model: Any, metrics: Any = "", **kwargs: Any) -> SwarmCallback:
    options = {"syncFrequency": 2, "minPeers": len(swarm.peers), "totalEpochs": 1, "model": model, **kwargs}
    return construct(swarm.peers[peer].directory, lambda: SwarmCallback(**options), metrics)


def scalar(value: float) -> Any:
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, value)
    return model


def test_fedprox_by_hand(make_swarm: MakeSwarm) -> None:
    model = scalar(1.0)
    callback = make(make_swarm(1), 0, model, fedProxMu=0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> float:
        # The loss 3w has the gradient 3.
        optimizer.zero_grad()
        model(torch.tensor([[3.0]])).sum().backward()
        optimizer.step()
        callback.on_batch_end()
        return float(model.weight)

    callback.on_train_begin()
    # At the merged model nothing pulls: 1 - 0.1*3. Then 0.7 - 0.1*(3 + 0.5*(0.7 - 1)).
    assert step() == pytest.approx(0.7)
    assert step() == pytest.approx(0.415)
    # Merged: 0.415 is the new centre.
    assert step() == pytest.approx(0.115)
    assert step() == pytest.approx(0.115 - 0.1 * (3 + 0.5 * (0.115 - 0.415)))
    callback.on_train_end()
    # Nothing pulls any more.
    before = float(model.weight)
    assert callback.fedprox_loss() == 0
    optimizer.zero_grad()
    model(torch.tensor([[3.0]])).sum().backward()
    assert float(model.weight.grad) == 3.0
    assert float(model.weight) == before


class Shared(nn.Module):
    """A parameter that is used twice, one that is frozen, one that a batch may not use, a buffer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first, self.second, self.unused = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.norm = nn.BatchNorm1d(3)
        self.first.bias.requires_grad_(False)

    def forward(self, x: Any) -> Any:
        return self.norm(self.second(torch.tanh(self.first(x))))


def test_hook_and_loss_are_the_same(make_swarm: MakeSwarm) -> None:
    models = [Shared(), Shared()]
    # Peers of a round start from one model, so that both pull towards the same.
    swarm = make_swarm(2)
    calls = [make(swarm, i, models[i], fedProxMu=0.3, fedProxHook=i == 0, syncFrequency=100) for i in range(2)]
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(1))

    def program(i: int) -> None:
        model, callback = models[i], calls[i]
        callback.on_train_begin()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for _ in range(5):
            optimizer.zero_grad()
            loss = model(x).pow(3).mean()
            if i == 1:
                loss = loss + callback.fedprox_loss()
            loss.backward()
            optimizer.step()

    together(lambda: program(0), lambda: program(1))
    for name, value in models[0].state_dict().items():
        torch.testing.assert_close(value, models[1].state_dict()[name], msg=name)
    away = sum(float((p - q).pow(2).sum()) for p, q in zip(models[0].parameters(), Shared().parameters()))
    assert float(calls[0].fedprox_loss()) == pytest.approx(0.15 * away, rel=1e-5)


def test_without_mu_gradients_stay(make_swarm: MakeSwarm) -> None:
    model = scalar(1.0)
    callback = make(make_swarm(1), 0, model, fedProxMu=0)
    callback.on_train_begin()
    model.weight.data += 5
    (callback.fedprox_loss() + model(torch.tensor([[3.0]])).sum()).backward()
    assert float(model.weight.grad) == 3.0


def test_thawed_parameter_is_pulled_from_the_next_merge_on(make_swarm: MakeSwarm) -> None:
    model = scalar(1.0)
    model.weight.requires_grad_(False)
    callback = make(make_swarm(1), 0, model, fedProxMu=1.0, syncFrequency=1)
    callback.on_train_begin()
    model.weight.requires_grad_(True)
    callback.on_batch_end()
    model.weight.data += 2
    model(torch.tensor([[3.0]])).sum().backward()
    assert float(model.weight.grad) == 5.0


def test_sparse_gradients_are_refused_by_name(make_swarm: MakeSwarm) -> None:
    model = nn.Embedding(4, 2, sparse=True)
    callback = make(make_swarm(1), 0, model, fedProxMu=1.0)
    callback.on_train_begin()
    with pytest.raises(errors.ParameterError, match='"weight" has sparse gradients'):
        model(torch.tensor([1])).sum().backward()


def test_a_failed_swarm_pulls_no_more(make_swarm: MakeSwarm) -> None:
    swarm, model = make_swarm(1), scalar(1.0)
    callback = make(swarm, 0, model, fedProxMu=1.0, syncFrequency=1)
    callback.on_train_begin()
    swarm.refuse["/v1/sync"] = RefusedError(409, "RESET", "the contract was reset")
    with pytest.raises(errors.ContractResetError):
        callback.on_batch_end()
    model.weight.data += 2
    model(torch.tensor([[3.0]])).sum().backward()
    assert float(model.weight.grad) == 3.0


class Personal(nn.Module):
    """A common body, batch norm, and a head of its own size."""

    def __init__(self, seed: int, classes: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.body, self.bn1, self.head = nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, classes)

    def forward(self, x: Any) -> Any:
        return self.head(self.bn1(self.body(x)))


def test_local_layers_stay_and_the_rest_is_merged(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    swarm = make_swarm(2)
    models = [Personal(seed, 2 + seed) for seed in range(2)]
    for model in models:
        model.train()(torch.randn(5, 3))
    first = [{name: value.clone() for name, value in model.state_dict().items()} for model in models]
    calls = [make(swarm, i, models[i], tmp_path / str(i), fedProxMu=1.0, localLayers=["head", "bn*.running_*"])
             for i in range(2)]  # fmt: skip

    def program(i: int) -> None:
        calls[i].on_train_begin()
        # FedProx holds what is merged only.
        with torch.no_grad():
            for parameter in models[i].parameters():
                parameter.add_(1)
        models[i](torch.ones(2, 3)).sum().backward()
        calls[i].on_train_end()

    together(lambda: program(0), lambda: program(1))
    for name in ("body.weight", "body.bias", "bn1.weight", "bn1.bias"):
        mean = (first[0][name] + first[1][name]) / 2 + 1
        for model in models:
            torch.testing.assert_close(model.state_dict()[name], mean)
    for i, model in enumerate(models):
        state = model.state_dict()
        for name in ("head.weight", "head.bias"):
            torch.testing.assert_close(state[name], first[i][name] + 1)
        # Two samples of ones through the head: the bias's gradient is their number, without a pull.
        np.testing.assert_allclose(model.head.bias.grad, np.full(2 + i, 2.0))
        assert not torch.equal(state["bn1.running_mean"], models[1 - i].state_dict()["bn1.running_mean"])
    opened = [body["tensors"] for _, path, body in swarm.log if path == "/v1/session"]
    want = ["body.weight", "body.bias", "bn1.weight", "bn1.bias", "bn1.num_batches_tracked"]
    assert [[tensor["name"] for tensor in tensors] for tensors in opened] == [want, want]
    assert len({events(tmp_path / str(i))[-1]["model_sha256"] for i in range(2)}) == 1


def test_tied_local_layer_is_refused(make_swarm: MakeSwarm) -> None:
    callback = make(make_swarm(1), 0, Shared(), localLayers=["second"])
    with pytest.raises(errors.ParameterError, match='"second.weight" is tied to "first.weight", which is merged'):
        callback.on_train_begin()


def test_unknown_local_layer_names_near_ones(make_swarm: MakeSwarm) -> None:
    callback = make(make_swarm(1), 0, Shared(), localLayers=["secnd.*"])
    with pytest.raises(errors.ParameterError, match=r"'secnd.\*' fits no tensor of the model \(near are 'second'"):
        callback.on_train_begin()


def test_complex_numbers_may_stay_local(make_swarm: MakeSwarm) -> None:
    model = scalar(1.0)
    model.register_buffer("phase", torch.ones(1, dtype=torch.complex64))
    callback = make(make_swarm(1), 0, model, localLayers=["phase"])
    callback.on_train_begin()
    callback.on_train_end()
    assert model.phase == torch.ones(1)
