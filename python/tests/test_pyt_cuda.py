"""Models on a GPU: what is merged, and peers of two ranks that share one GPU. Not run where there is none."""

from __future__ import annotations

import json
import pathlib
from typing import Any, Callable

import pytest

from fakeswarm import FakeSwarm
from helpers import construct, together
from torchranks import LIMIT_SECONDS, Run

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

from swarmlearning.pyt import SwarmCallback

MakeSwarm = Callable[..., FakeSwarm]

# NCCL refuses two ranks on one GPU, which it does not see where they seem to be on different hosts.
NCCL = {
    (peer, rank): {"env": {"NCCL_HOSTID": str(rank), "NCCL_SOCKET_IFNAME": "lo"}} for peer in (0, 1) for rank in (0, 1)
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("where", ["cuda", "cpu"])
def test_models_of_all_types_merge(make_swarm: MakeSwarm, dtype: str, where: str) -> None:
    """Two peers, one of them on a GPU, the other there or on the CPU: the same bits, and each stays where it was."""
    swarm = make_swarm(2)

    def peer(number: int, device: str) -> Callable[[], Any]:
        def train() -> Any:
            torch.manual_seed(number)
            model = torch.nn.Sequential(torch.nn.Linear(40, 30), torch.nn.BatchNorm1d(30)).to(
                device, getattr(torch, dtype)
            )
            places = [parameter.data_ptr() for parameter in model.parameters()]
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
            settings = {"syncFrequency": 2, "minPeers": 2, "model": model}
            callback = construct(swarm.peers[number].directory, lambda: SwarmCallback(**settings))
            callback.on_train_begin()
            for _ in range(4):
                optimizer.zero_grad()
                model(torch.randn(8, 40).to(device, getattr(torch, dtype))).float().square().mean().backward()
                optimizer.step()
                callback.on_batch_end()
            callback.on_train_end()
            assert places == [parameter.data_ptr() for parameter in model.parameters()], "the optimizer's parameters"
            assert {str(value.device.type) for value in model.state_dict().values()} == {device}
            return {name: value.cpu() for name, value in model.state_dict().items()}

        return train

    # What torch imports with the first step may not be imported by two threads at once.
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1, device="cuda"))], lr=0.1).step()
    first, second = together(peer(0, "cuda"), peer(1, where))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert str(first["0.weight"].dtype) == f"torch.{dtype}"


def test_overlap_and_fedprox(make_swarm: MakeSwarm) -> None:
    """What keeps a copy of the merged model keeps it on the GPU."""
    for options in ({"overlap": True}, {"fedProxMu": 0.1}, {"localLayers": ["1"]}):
        swarm = make_swarm(1)
        model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        settings = {"syncFrequency": 2, "minPeers": 1, "model": model, **options}
        callback = construct(swarm.peers[0].directory, lambda s=settings: SwarmCallback(**s))
        callback.on_train_begin()
        for _ in range(6):
            optimizer.zero_grad()
            model(torch.randn(8, 4).cuda()).square().mean().backward()
            optimizer.step()
            callback.on_batch_end()
        callback.on_train_end()
        assert all(bool(torch.isfinite(parameter).all()) for parameter in model.parameters())


def test_validation_is_measured_there(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    """With a metric of torchmetrics where that is installed."""
    swarm = make_swarm(1)
    model = torch.nn.Linear(4, 3).cuda()
    data = torch.utils.data.TensorDataset(torch.randn(20, 4), torch.arange(20) % 3)
    settings = {"syncFrequency": 1, "minPeers": 1, "model": model, "adsValData": data, "lossFunction": "CrossEntropyLoss",
                "metricFunction": "Accuracy", "metricFunctionArgs": {"task": "multiclass", "num_classes": 3}}  # fmt: skip
    callback = construct(swarm.peers[0].directory, lambda: SwarmCallback(**settings), tmp_path / "metrics")
    callback.on_train_begin()
    callback.on_batch_end()
    callback.on_epoch_end()
    callback.on_train_end()
    ends = [json.loads(line) for line in (tmp_path / "metrics").read_text().splitlines()]
    last = next(event for event in ends if event["event"] == "end")
    with torch.no_grad():
        output = model(data.tensors[0].cuda()).cpu()
    assert last["loss"] == pytest.approx(float(torch.nn.functional.cross_entropy(output, data.tensors[1])), rel=1e-4)
    assert last["metric"] == pytest.approx(float((output.argmax(1) == data.tensors[1]).float().mean()))


@pytest.mark.parametrize(("backend", "dtype"), [("gloo", "float32"), ("gloo", "bfloat16"), ("nccl", "float32"), ("nccl", "bfloat16"),
                                                ("cpu:gloo,cuda:nccl", "float32")])  # fmt: skip
def test_ranks_on_one_gpu(make_swarm: MakeSwarm, run: Run, backend: str, dtype: str) -> None:
    """Two peers of two ranks."""
    swarm = make_swarm(2, poll=0.2)
    ended = run(swarm, (2, 2), NCCL if "nccl" in backend else None, device="cuda:0", backend=backend, dtype=dtype)
    assert [rank.code for rank in ended] == [0] * 4, ended
    assert all(rank.result == ended[0].result for rank in ended)
    assert ended[0].result["limit"] == LIMIT_SECONDS, "the program's own"


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_a_compiled_model(make_swarm: MakeSwarm, run: Run, backend: str) -> None:
    """torch.compile of what DistributedDataParallel has wrapped."""
    swarm = make_swarm(1)
    own = NCCL if backend == "nccl" else None
    ended = run(swarm, (2,), own, device="cuda:0", backend=backend, compile=True, callback={"minPeers": 1})
    assert [rank.code for rank in ended] == [0, 0], ended
    assert ended[0].result == ended[1].result
    assert swarm.log


def test_a_group_bound_to_its_gpu(make_swarm: MakeSwarm, run: Run) -> None:
    """init_process_group(device_id=…): torch 2 then connects at once."""
    swarm = make_swarm(1)
    own = {(0, rank): {**NCCL[0, rank], "bound": True} for rank in (0, 1)}
    ended = run(swarm, (2,), own, device="cuda:0", backend="nccl", callback={"minPeers": 1})
    assert [rank.code for rank in ended] == [0, 0], ended
    assert ended[0].result == ended[1].result


@pytest.mark.parametrize("how", ["plain", "apart"])
def test_ranks_that_train_apart_are_refused(make_swarm: MakeSwarm, run: Run, how: str) -> None:
    swarm = make_swarm(1)
    ended = run(swarm, (2,), device="cuda:0", callback={"minPeers": 1}, **{how: True})
    assert [rank.code for rank in ended] == [1, 1], ended
    assert all("with other weights than rank 0" in rank.error for rank in ended), ended


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
@pytest.mark.parametrize("told", [{1: {"batch 4": "kill"}}, {0: {"batch 2": "kill"}}, {1: {"end": "kill"}}])
def test_a_rank_is_killed(make_swarm: MakeSwarm, run: Run, backend: str, told: dict[int, Any]) -> None:
    """The other one ends with an error: soon, or, where it stands in NCCL's collective, a minute after its limit."""
    swarm = make_swarm(1)
    own = {(0, rank): {**(NCCL[0, rank] if backend == "nccl" else {}), "do": told.get(rank, {})} for rank in (0, 1)}
    ended = run(swarm, (2,), own, device="cuda:0", backend=backend, limit=10, callback={"minPeers": 1})
    assert all(rank.code != 0 for rank in ended), ended


@pytest.mark.parametrize("wrapper", ["FullyShardedDataParallel", "fully_shard"])
def test_sharded_models_are_refused(make_swarm: MakeSwarm, run: Run, wrapper: str) -> None:
    """Of both kinds that torch 2 has."""
    swarm = make_swarm(1)
    ended = run(swarm, (2,), device="cuda:0", wrapper=wrapper, callback={"minPeers": 1})
    assert [rank.code for rank in ended] == [1, 1], ended
    assert all("is sharded among the ranks (FSDP)" in rank.error for rank in ended), ended
    assert not swarm.log
