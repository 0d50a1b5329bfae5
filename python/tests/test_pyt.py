from __future__ import annotations

import copy
import logging
import pathlib
import subprocess
import sys
from typing import Any, Callable

import numpy as np
import pytest

from fakeswarm import FakeSwarm
from helpers import construct, events, together

torch = pytest.importorskip("torch")

from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import swarm as v03
from swarmlearning import _params, errors
from swarmlearning._local import LocalLayers
from swarmlearning._pyt_model import Module
from swarmlearning._pyt_prox import Proximal
from swarmlearning._pyt_score import Accuracy, Evaluator
from swarmlearning.pyt import SwarmCallback

MakeSwarm = Callable[..., FakeSwarm]


class Odd(nn.Module):
    """What state_dicts contain in life: batch norm counters, bfloat16, tied, non-contiguous and empty tensors."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.tied = nn.Linear(4, 4)
        self.tied.weight = self.first.weight
        self.turned = nn.Parameter(torch.randn(3, 2).t())
        self.brief = nn.Parameter(torch.randn(5).to(torch.bfloat16))
        self.register_buffer("scalar", torch.tensor(float(seed), dtype=torch.bfloat16))
        self.register_buffer("mask", torch.tensor([True, False]))
        self.register_buffer("none", torch.zeros(0, 3))

    def forward(self, x: Any) -> Any:
        return self.tied(self.norm(self.first(x)))


def make(swarm: FakeSwarm, peer: int, model: Any, metrics: Any = "", **kwargs: Any) -> SwarmCallback:
    options = {"syncFrequency": 1, "minPeers": len(swarm.peers), "totalEpochs": 1, "model": model, **kwargs}
    return construct(swarm.peers[peer].directory, lambda: SwarmCallback(**options), metrics)


def loader(count: int = 10, batch: int = 4) -> Any:
    # Of its own: threads that make one at once would take turns with torch's.
    random = torch.Generator().manual_seed(0)
    return DataLoader(TensorDataset(torch.randn(count, 4, generator=random), torch.arange(count) % 4), batch_size=batch)


def test_odd_models_become_equal(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    swarm = make_swarm(2, poll=0.05)
    models = [Odd(0), Odd(2)]
    before = [copy.deepcopy(model.state_dict()) for model in models]
    identity = [{name: id(p) for name, p in model.named_parameters()} for model in models]

    def program(i: int) -> None:
        callback = make(swarm, i, models[i], tmp_path / str(i), adsValData=loader(), lossFunction="CrossEntropyLoss",
                        metricFunction="Accuracy", metricFunctionArgs={"task": "multiclass", "num_classes": 4})  # fmt: skip
        callback.on_train_begin()
        callback.on_epoch_end()
        callback.on_train_end()
        callback.training_over

    together(lambda: program(0), lambda: program(1))
    left, right = (model.state_dict() for model in models)
    for name, value in left.items():
        assert torch.equal(value, right[name]), name
        assert value.dtype == before[0][name].dtype
        assert value.shape == before[0][name].shape
    mean = (before[0]["first.bias"] + before[1]["first.bias"]) / 2
    assert torch.allclose(left["first.bias"], mean)
    assert float(left["scalar"]) == 1.0
    assert models[0].tied.weight is models[0].first.weight
    assert not models[0].turned.is_contiguous()
    assert identity == [{name: id(p) for name, p in model.named_parameters()} for model in models]
    assert all(model.training and model.norm.training for model in models)
    ends = [events(tmp_path / str(i))[-1] for i in range(2)]
    assert ends[0]["model_sha256"] == ends[1]["model_sha256"]
    assert ends[0]["loss"] == ends[1]["loss"] > 0
    assert 0 <= ends[0]["metric"] <= 1


def test_optimizer_state_is_untouched(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.Adam(model.parameters())
    callback = make(swarm, 0, model)
    callback.on_train_begin()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    kept = copy.deepcopy(optimizer.state_dict()["state"][0])
    callback.on_batch_end(0)
    assert torch.equal(optimizer.state_dict()["state"][0]["exp_avg"], kept["exp_avg"])
    assert optimizer.param_groups[0]["params"][0] is model.weight


class Kept(nn.Module):
    """Keeps the tensor that it is given, as modules with buffers of changing sizes do."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.ones(3))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
        self.seen = state_dict[prefix + "seen"]


def test_a_module_that_keeps_what_it_is_given_has_its_own() -> None:
    model = nn.Sequential(nn.Linear(2, 1), Kept())
    module = Module(model, None, LocalLayers(None), Proximal(model, 0.0, False))
    lent = [np.full(array.shape, 5, dtype=array.dtype) for _, array in module.snapshot()]
    module.load(lent)
    for array in lent:
        array[...] = 7  # The slot holds the next round's model.
    assert all((value == 5).all() for value in model.state_dict().values())


def test_nan_names_the_tensor(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    model = Odd(0)
    callback = make(swarm, 0, model)
    callback.on_train_begin()
    with torch.no_grad():
        model.brief[2] = float("nan")
    with pytest.raises(errors.NotFiniteError, match='tensor "brief"'):
        callback.on_batch_end()
    assert "brief" in swarm.aborted["sl-0"]


def test_complex_is_refused_by_name(make_swarm: MakeSwarm) -> None:
    model = nn.Linear(1, 1)
    model.register_buffer("phase", torch.zeros(1, dtype=torch.complex64))
    with pytest.raises(errors.DTypeError, match='tensor "phase": type complex64'):
        make(make_swarm(1), 0, model).on_train_begin()


def measure(model: Any, data: Any, **scoring: Any) -> Any:
    return Evaluator(model, data, scoring, _params.default_logger()).measure()


def test_loss_is_the_mean_of_a_sample_for_both_reductions() -> None:
    model, data = nn.Linear(4, 4), loader(10, 4)
    x, y = data.dataset.tensors
    want = float(nn.functional.cross_entropy(model(x), y))
    for function, args in [
        ("CrossEntropyLoss", None),
        ("CrossEntropyLoss", {"reduction": "sum"}),
        ("CrossEntropyLoss", {"reduction": "none"}),
        (nn.CrossEntropyLoss(reduction="sum"), None),
        (nn.CrossEntropyLoss, {}),
        (nn.functional.cross_entropy, None),
        (nn.functional.cross_entropy, {"reduction": "sum"}),
    ]:
        loss, metric = measure(model, data, lossFunction=function, lossFunctionArgs=args)
        assert loss == pytest.approx(want, rel=1e-5)
        assert 0 <= metric <= 1


def test_evaluation_restores_each_part_and_uses_eval_mode() -> None:
    model = Odd(0)
    model.norm.eval()
    kept = model.norm.running_mean.clone()
    measure(model, loader(), lossFunction="CrossEntropyLoss")
    assert torch.equal(model.norm.running_mean, kept)
    assert (model.training, model.norm.training, model.first.training) == (True, False, True)


def test_accuracy() -> None:
    def of(accuracy: Accuracy, output: Any, target: Any) -> float:
        accuracy.reset()
        accuracy.update(torch.tensor(output), torch.tensor(target))
        return accuracy.compute()

    scores = [[0.9, 0.1, 0.0], [0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.3, 0.6, 0.1]]
    assert of(Accuracy(num_classes=3), scores, [0, 0, 0, 1]) == pytest.approx(0.75)
    # Class 0: 2 of 3, class 1: 1 of 1, class 2 does not occur.
    assert of(Accuracy(num_classes=3, average="macro"), scores, [0, 0, 0, 1]) == pytest.approx((2 / 3 + 1) / 2)
    assert of(Accuracy(task="binary"), [2.0, -1.0, 0.3], [1, 0, 0]) == pytest.approx(2 / 3)
    assert of(Accuracy(), [1, 2], [1, 0]) == 0.5


def test_callable_metric() -> None:
    got = measure(nn.Linear(4, 4), loader(10, 4), lossFunction="CrossEntropyLoss", metricFunction=lambda o, t: len(t))
    assert got[1] == pytest.approx((4 * 4 + 4 * 4 + 2 * 2) / 10)


class Ragged:
    """A dataset whose samples have different lengths."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        return torch.zeros(index), index


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"model": None}, "model: NoneType"),
        ({"adsValData": [1]}, "adsValData: list"),
        ({"adsValData": "loader", "lossFunction": "NoSuchLoss"}, "torch.nn has no 'NoSuchLoss'"),
        (
            {"adsValData": "loader", "lossFunction": "crossentropy"},
            "'crossentropy'; did you mean CrossEntropyLoss. .give",
        ),
        ({"adsValData": "loader", "lossFunction": 3}, "lossFunction: 3"),
        (
            {"adsValData": "loader", "lossFunction": "CrossEntropyLoss", "lossFunctionArgs": {"x": 1}},
            "lossFunctionArgs",
        ),
        ({"adsValData": "loader", "lossFunction": "MSELoss", "metricFunction": 3}, "metricFunction: 3"),
        ({"adsValData": "loader", "useAdaptiveSync": True}, "useAdaptiveSync: is on without lossFunction"),
        ({"adsValData": "ragged"}, "adsValData: no batch can be made of this Ragged: .*collate_fn"),
        ({"adsValData": "loader", "adsValBatchSize": -1}, "adsValBatchSize: -1"),
        ({"useAdaptiveSync": True}, "useAdaptiveSync: is on without adsValData"),
    ],
)
def test_wrong_parameters(monkeypatch: pytest.MonkeyPatch, kwargs: dict[str, Any], text: str) -> None:
    monkeypatch.setenv("SWARM_LOOPBACK", "true")
    if kwargs.get("adsValData") == "loader":
        kwargs = {**kwargs, "adsValData": loader()}
    if kwargs.get("adsValData") == "ragged":
        kwargs = {**kwargs, "adsValData": Ragged()}
    with pytest.raises(errors.SwarmError, match=text):
        SwarmCallback(1, 1, **{"model": nn.Linear(4, 4), **kwargs})


def test_dataset_is_batched(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    data, model = loader(10).dataset, nn.Linear(4, 4)
    callback = make(make_swarm(1), 0, model, tmp_path / "m", adsValData=data, adsValBatchSize=3,
                    lossFunction="CrossEntropyLoss")  # fmt: skip
    callback.on_train_begin()
    want = float(nn.functional.cross_entropy(model(data.tensors[0]), data.tensors[1]))
    assert events(tmp_path / "m")[-1]["loss"] == pytest.approx(want, rel=1e-5)


@pytest.mark.parametrize(
    ("scoring", "loss", "metric", "warning"),
    [
        ({}, False, False, "no loss is reported: give the name of a loss in torch.nn"),
        ({"metricFunction": lambda output, target: 1.0}, False, True, "no loss is reported"),
        (
            {"lossFunction": "MSELoss", "metricFunction": "Accuracy", "metricFunctionArgs": {"top_k": 2}},
            True,
            False,
            "no metric is reported: metricFunction: 'Accuracy' with {'top_k': 2} needs torchmetrics",
        ),
        (
            {"lossFunction": "MSELoss", "metricFunction": "Acuracy"},
            True,
            False,
            "'Acuracy' with {} needs torchmetrics, which is not installed; did you mean Accuracy?",
        ),
    ],
)
def test_what_can_not_be_measured_is_warned_of(
    make_swarm: MakeSwarm,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    scoring: dict[str, Any],
    loss: bool,
    metric: bool,
    warning: str,
) -> None:
    monkeypatch.setitem(sys.modules, "torchmetrics", None)  # As if it were not installed.
    data = DataLoader(TensorDataset(torch.ones(8, 4), torch.ones(8, 4)), batch_size=4)
    callback = make(make_swarm(1), 0, nn.Linear(4, 4), tmp_path / "m", adsValData=data, **scoring)
    callback.on_train_begin()
    callback.on_epoch_end()
    callback.on_train_end()
    assert capsys.readouterr().out.count(warning) == 1
    end = events(tmp_path / "m")[-1]
    assert (end["loss"] is not None, end["metric"] is not None) == (loss, metric)


def test_a_classifier_is_measured_without_more_parameters(
    make_swarm: MakeSwarm, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = loader()
    callback = make(make_swarm(1), 0, nn.Linear(4, 4), tmp_path / "m", adsValData=data)
    callback.on_train_begin()
    callback.on_epoch_end()
    callback.on_train_end()
    x, y = data.dataset.tensors
    end = events(tmp_path / "m")[-1]
    output = callback._model(x)
    assert end["loss"] == pytest.approx(float(nn.functional.cross_entropy(output, y)), rel=1e-5)
    assert end["metric"] == pytest.approx(float((output.argmax(1) == y).float().mean()))
    assert end["metric_name"] == "accuracy"
    assert capsys.readouterr().out.count("took cross entropy as the loss") == 1


@pytest.mark.parametrize("last", [nn.Softmax(dim=1), nn.LogSoftmax(dim=1), nn.Identity()])
def test_what_is_assumed_fits_scores_and_probabilities(last: nn.Module) -> None:
    torch.manual_seed(3)
    scores, data = nn.Linear(4, 4), loader()
    x, y = data.dataset.tensors
    loss, _ = measure(nn.Sequential(scores, last), data)
    assert loss == pytest.approx(float(nn.functional.cross_entropy(scores(x), y)), rel=1e-4)


@pytest.mark.parametrize(
    "targets", [torch.full((10,), 4), torch.full((10,), -1), torch.ones(10), torch.zeros(10, 1, dtype=torch.int64)]
)
def test_nothing_is_assumed_of_what_is_no_classifier(targets: Any, caplog: pytest.LogCaptureFixture) -> None:
    data = DataLoader(TensorDataset(torch.randn(10, 4), targets), batch_size=5)
    evaluator = Evaluator(nn.Linear(4, 4), data, {}, logging.getLogger("test"))
    assert evaluator.measure() in ((None, None), None)
    assert evaluator.measure() is None
    assert caplog.text.count("no loss is reported") == 1


def test_what_nobody_asked_for_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    evaluator = Evaluator(nn.Linear(3, 4), loader(), {}, logging.getLogger("test"))
    assert [evaluator.measure(), evaluator.measure()] == [None, None]
    assert caplog.text.count("loss can not be measured") == 1


def test_attributes_of_the_original(make_swarm: MakeSwarm, monkeypatch: pytest.MonkeyPatch) -> None:
    swarm = make_swarm(1)
    callback = make(swarm, 0, nn.Linear(4, 4), syncFrequency=3)
    callback.on_train_begin()
    callback.on_epoch_end()
    assert isinstance(callback.logger, logging.Logger)
    assert (callback.isSwarmTrainingOver, callback.is_swarm_training_over, callback.training_over) == (False,) * 3
    assert (callback.currentSyncFrequency, callback.current_sync_interval, callback.sync_frequency) == (3,) * 3
    assert (callback.epochsCompleted, callback.epochs_completed) == (1, 1)
    assert (callback.mlPlatform, callback.ml_platform, callback.loopback) == ("PYTORCH", "PYTORCH", False)
    callback.on_train_end()
    assert callback.isSwarmTrainingOver is True
    # Types are the original's: bool and int, not what merely compares equal.
    assert type(callback.isSwarmTrainingOver) is bool
    assert type(callback.currentSyncFrequency) is type(callback.epochsCompleted) is int
    monkeypatch.setenv("SWARM_LOOPBACK", "1")
    assert SwarmCallback(1, 1, model=nn.Linear(1, 1)).loopback is True


def test_logger_level_counts(make_swarm: MakeSwarm, capsys: pytest.CaptureFixture[str]) -> None:
    callback = make(make_swarm(1), 0, nn.Linear(4, 4))
    callback.logger.setLevel(logging.ERROR)
    try:
        callback.on_train_begin()
    finally:
        callback.logger.setLevel(logging.INFO)  # Others share it.
    assert "session opened" not in capsys.readouterr().out


def test_unknown_attribute_names_the_near_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWARM_LOOPBACK", "1")
    callback = SwarmCallback(1, 1, model=nn.Linear(1, 1))
    with pytest.raises(AttributeError, match=r"'isSwarmTrainingOvr'; did you mean isSwarmTrainingOver\?"):
        callback.isSwarmTrainingOvr
    with pytest.raises(AttributeError, match=r"no attribute 'xyz'\. docs/reference/python.md"):
        callback.xyz
    assert not hasattr(callback, "_private")


def test_failing_loss_is_a_clear_error(make_swarm: MakeSwarm) -> None:
    callback = make(make_swarm(1), 0, nn.Linear(3, 4), adsValData=loader(), lossFunction="CrossEntropyLoss")
    with pytest.raises(errors.SwarmError, match="measure loss on adsValData: .*check lossFunction"):
        callback.on_train_begin()


class Share:
    """A metric of torchmetrics' shape."""

    def __init__(self, of: int = 1) -> None: ...

    def reset(self) -> None: ...

    def update(self, output: Any, target: Any) -> None: ...

    def compute(self) -> float:
        return 0.5


def share(output: Any, target: Any, of: int = 1) -> float:
    return 0.5


@pytest.mark.parametrize(
    ("scoring", "name"),
    [
        ({"metricFunction": Share}, "Share"),
        ({"metricFunction": Share()}, "Share"),
        ({"metricFunction": share, "metricFunctionArgs": {"of": 2}}, "share"),
        ({"metricFunction": lambda output, target: 0.5}, None),
        ({}, "accuracy"),
        (
            {"metricFunction": "Accuracy", "metricFunctionArgs": {"task": "multiclass", "num_classes": 4}},
            "Accuracy",
        ),
    ],
)
def test_metrics_file_names_the_metric(
    scoring: Any, name: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setenv("SWARM_LOOPBACK", "true")
    monkeypatch.setenv("SWARM_METRICS_FILE", str(tmp_path / "m"))
    model = nn.Linear(4, 4)
    callback = SwarmCallback(
        8, 2, "c", model=model, totalEpochs=1, adsValData=loader(), lossFunction="CrossEntropyLoss", **scoring
    )
    callback.on_train_begin()
    callback.on_epoch_end(0)
    callback.on_train_end()
    assert [event.get("metric_name") for event in events(tmp_path / "m")] == [None, name, name]


class Gathers(nn.Module):  # type: ignore[misc]
    """A metric that gathers over all ranks, as those of torchmetrics do, where its own flag says so."""

    def __init__(self, *parts: Gathers) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.sync_on_compute = self._to_sync = True

    def reset(self) -> None: ...

    def update(self, output: Any, target: Any) -> None: ...

    def compute(self) -> float:
        assert not self._to_sync, "waits for ranks that do not measure"
        return sum(part.compute() for part in self.parts) + 0.5


def test_a_metric_does_not_wait_for_other_ranks(make_swarm: MakeSwarm) -> None:
    """Rank 0 alone measures; the program may go on to use its metric on all."""
    metric = Gathers(Gathers())
    swarm = make_swarm(1)
    scoring = {"lossFunction": "CrossEntropyLoss", "metricFunction": metric}
    callback = make(swarm, 0, nn.Linear(4, 4), minPeers=1, adsValData=loader(), **scoring)
    callback.on_train_begin()
    assert [entry[2]["metric"] for entry in swarm.log if entry[1] == "/v1/report"] == [1.0]
    assert metric._to_sync and metric.parts[0]._to_sync and metric.sync_on_compute


def test_version_03(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setenv("SWARM_LOOPBACK", "true")
    monkeypatch.setenv("SWARM_METRICS_FILE", str(tmp_path / "m"))
    model, data = nn.Sequential(nn.Linear(4, 4), nn.LogSoftmax(dim=1)), loader().dataset
    callback = v03.SwarmCallback(sync_interval=8, min_peers=2, val_data=data, val_batch_size=5, model=model,
                                 model_name="m", node_weightage=3, ml_platform="PYTORCH")  # fmt: skip
    assert isinstance(callback, SwarmCallback)
    callback.on_train_begin()
    callback.on_batch_end()
    callback.on_epoch_end(0)
    callback.on_train_end()
    want = nn.functional.nll_loss(model(data.tensors[0]), data.tensors[1])
    assert events(tmp_path / "m")[-1]["loss"] == pytest.approx(float(want), rel=1e-5)
    with pytest.raises(errors.ParameterError, match="ml_platform: 'CAFFE'"):
        v03.SwarmCallback(sync_interval=8, min_peers=2, ml_platform="CAFFE")
    with pytest.raises(errors.ParameterError, match="TensorFlow 1 are not supported"):
        v03.SwarmCallback(sync_interval=8, min_peers=2, ml_platform="TF")


def test_package_imports_no_framework() -> None:
    code = "import sys, swarmlearning, swarm, swarmlearning.arrays; print([m for m in ('torch', 'tensorflow', 'keras') if m in sys.modules])"
    source = pathlib.Path(__file__).parents[1] / "src"
    got = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(source)}, check=True, capture_output=True)
    assert got.stdout.decode().strip() == "[]"
