from __future__ import annotations

import logging

import numpy as np
import pytest

import swarmlearning
from swarmlearning import _params, errors
from swarmlearning._local import LocalLayers

LOG = logging.getLogger("test")


def check(**kwargs: object) -> _params.Params:
    positional = [kwargs.pop("syncFrequency", 4), kwargs.pop("minPeers", 2), kwargs.pop("trainingContract", "c")]
    return _params.check(*positional, kwargs, "PYTORCH", LOG)


def test_defaults() -> None:
    assert check().terms() == {
        "contract": "c", "min_peers": 2, "sync_frequency": 4, "adaptive": False,
        "weight": 1, "total_epochs": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("method", "params", "want"),
    [
        (None, None, None),
        ("GeoMedian", None, "geomedian"),
        (" Krum(F=1) ", None, "krum(f=1)"),
        ("krum", {"f": 2}, "krum(f=2)"),
        ("multikrum", {"f": np.int64(1), "m": 3.0}, "multikrum(f=1,m=3)"),
        ("FedAdam", {"lr": 0.01, "Tau": 1e-05}, "fedadam(lr=0.01,tau=1e-05)"),
        ("trimmedmean", {"share": np.float64(0.1)}, "trimmedmean(share=0.1)"),
        ("mean", {}, "mean"),
        ("mean", {"wire": "bfloat16"}, "mean(wire=bfloat16)"),
        ("krum", {"f": 1, "Wire": " Float16 "}, "krum(f=1,wire=float16)"),
        ("Mean(wire=BFloat16)", None, "mean(wire=bfloat16)"),
        # The daemon knows which there are.
        ("method_of_tomorrow", None, "method_of_tomorrow"),
    ],
)
def test_merge_method(method: object, params: object, want: object) -> None:
    assert check(mergeMethod=method, mergeParams=params).terms().get("method") == want


@pytest.mark.parametrize("mode", ["snapshot", "Active", "inactive", "once"])
def test_checkin_mode_is_sent_if_it_is_chosen(mode: str) -> None:
    assert check(checkinModelOnTrainEnd=mode).terms()["checkin_mode"] == mode.lower()


def test_checkin_mode_of_none_is_not_chosen() -> None:
    assert "checkin_mode" not in check(checkinModelOnTrainEnd=None).terms()


def test_values_are_cast_and_case_ignored() -> None:
    got = check(syncFrequency="8", minPeers=3.0, nodeWeightage=np.int64(7), totalEpochs="5", mergeMethod="CoordMedian",
                checkinModelOnTrainEnd="ACTIVE", useAdaptiveSync=True, adsValData=object())  # fmt: skip
    want = _params.Params(8, 3, "c", 5, "active", 7, "coordmedian", True)
    assert got == want


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("syncFrequency", 0, "a whole number from 1"),
        ("syncFrequency", 2.5, "a whole number from 1"),
        ("syncFrequency", None, "a whole number from 1"),
        ("syncFrequency", True, "a whole number from 1"),
        ("syncFrequency", float("inf"), "a whole number from 1"),
        ("minPeers", "two", "a whole number from 1"),
        ("minPeers", -1, "a whole number from 1"),
        ("trainingContract", None, "name of a contract"),
        ("trainingContract", "", "name of a contract"),
        ("totalEpochs", 0, "a whole number from 1"),
        ("checkinModelOnTrainEnd", "sleep", "inactive, snapshot, active, once"),
        ("nodeWeightage", 101, "from 0 to 100"),
        ("nodeWeightage", -1, "from 0 to 100"),
        ("nodeWeightage", "sample", 'from 0 to 100, or "samples"'),
        ("mergeMethod", "", 'like "coordmedian" or "krum(f=1)"'),
        ("mergeMethod", "krum(f=1", 'like "coordmedian" or "krum(f=1)"'),
        ("mergeMethod", "mean, krum", 'like "coordmedian" or "krum(f=1)"'),
        ("mergeMethod", 3, 'like "coordmedian" or "krum(f=1)"'),
        ("mergeParams", {"f": 1}, "give mergeMethod too"),
        ("useAdaptiveSync", "yes", "True or False"),
        ("useAdaptiveSync", True, "adsValData"),
    ],
)
def test_wrong_values_name_parameter_and_what_is_allowed(name: str, value: object, allowed: str) -> None:
    with pytest.raises(swarmlearning.SwarmError) as caught:
        check(**{name: value})
    assert isinstance(caught.value, errors.ParameterError)
    assert caught.value.message.startswith(f"{name}: ")
    assert allowed in str(caught.value)


@pytest.mark.parametrize(
    ("method", "params", "text"),
    [
        ("krum", [1], "give a dict"),
        ("krum", {"f": "1"}, "f is '1'"),
        ("krum", {"f": True}, "f is True"),
        ("fedadam", {"lr": float("nan")}, "give a finite number"),
        ("krum", {"f=1,m": 2}, "is no name"),
        ("krum", {1: 2}, "is no name"),
        ("mean", {"wire": "float16,f=1"}, 'a word like "bfloat16"'),
        ("mean", {"wire": 16.5j}, "wire is 16.5j"),
        ("krum(f=1)", {"m": 2}, "mergeMethod has parameters already"),
    ],
)
def test_wrong_merge_params(method: str, params: object, text: str) -> None:
    with pytest.raises(errors.ParameterError, match=r"^mergeParams: ") as caught:
        check(mergeMethod=method, mergeParams=params)
    assert text in str(caught.value)


@pytest.mark.parametrize("value", [-0.1, float("inf"), float("nan"), "0.1", True])
def test_strength_must_be_a_number(value: object) -> None:
    with pytest.raises(errors.ParameterError, match=r"fedProxMu: .*give a number from 0"):
        _params.strength("fedProxMu", value)


NAMES = [("conv.weight",), ("conv.bias",), ("bn1.weight",), ("bn1.running_mean",), ("head.0.weight",), ("head.0.bias",)]


@pytest.mark.parametrize(
    ("given", "local"),
    [
        (None, []),
        ([], []),
        ("head", [4, 5]),
        (["head.*"], [4, 5]),
        (["bn*.running_*", "head.0.bias"], [3, 5]),
        (("*.bias", "bn?"), [1, 2, 3, 5]),
    ],
)
def test_local_layers(given: object, local: list[int]) -> None:
    layers = LocalLayers(given)
    assert [index for index, merged in enumerate(layers.shared(NAMES)) if not merged] == local
    assert bool(layers) is bool(local)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["heads"], "'heads' fits no tensor of the model (near are 'head'"),
        (["head", "bn.running_*"], "'bn.running_*' fits no tensor of the model (near are"),
        (["zzz"], "near are 'conv.weight', 'conv.bias', 'bn1.weight'"),
        (["*"], "nothing is left to merge"),
        ([3], "give a list of names or patterns"),
        (7, "give a list of names or patterns"),
        ([""], "give a list of names or patterns"),
    ],
)
def test_wrong_local_layers(given: object, text: str) -> None:
    with pytest.raises(errors.ParameterError, match=r"^localLayers: ") as caught:
        LocalLayers(given).shared(NAMES)
    assert text in str(caught.value)


def test_weight_0_takes_part_without_contributing() -> None:
    assert check(nodeWeightage="0").terms()["weight"] == 0


@pytest.mark.parametrize(
    ("data", "weight"),
    [({}, 1), ({"trainData": 60000}, 60000), ({"trainData": []}, 0), ({"trainData": 1 << 31}, 1 << 30)],
)
def test_weights_that_are_numbers_of_samples(data: dict[str, object], weight: int) -> None:
    terms = check(nodeWeightage="Samples", **data).terms()
    assert (terms["weights"], terms["weight"]) == ("samples", weight)
    assert "weights" not in check().terms()


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        ("KERAS", "import it from swarmlearning.tf"),
        ("tensorflow", "import it from swarmlearning.tf"),
        ("CAFFE", "give one of PYTORCH, KERAS, HF_TRANSFORMER"),
        ("TF", "graphs and sessions of TensorFlow 1 are not supported .*Keras"),
    ],
)
def test_platform_that_does_not_fit(value: str, remedy: str) -> None:
    with pytest.raises(errors.ParameterError, match=remedy):
        check(ml_platform=value)
    with pytest.raises(errors.ParameterError, match="mlPlatform"):
        check(mlPlatform=value)


def test_platform_that_fits() -> None:
    check(ml_platform="pytorch", mlPlatform="PYT")


def test_programs_without_total_epochs_are_not_warned(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        check()
    assert [record.levelname for record in caplog.records] == ["INFO"]


def test_unknown_parameters_are_said_and_ignored(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        check(syncInterval=3)
        check(totalEpoch=3, lossfunction="x", something=1)
    assert "parameter syncInterval is not known and has no effect" in caplog.text
    assert "parameter totalEpoch is not known and has no effect; did you mean totalEpochs?" in caplog.text
    assert "lossfunction is not known and has no effect; did you mean lossFunction?" in caplog.text
    assert "parameter something is not known and has no effect\n" in caplog.text


@pytest.mark.parametrize(
    ("value", "want"), [("True", True), ("true", True), ("1", True), ("False", False), ("", False)]
)
def test_loopback(monkeypatch: pytest.MonkeyPatch, value: str, want: bool) -> None:
    monkeypatch.setenv("SWARM_LOOPBACK", value)
    assert _params.loopback() is want


def test_log_format(capsys: pytest.CaptureFixture[str]) -> None:
    _params.default_logger().info("hello")
    assert _params.default_logger() is _params.default_logger(None)
    out = capsys.readouterr().out
    assert out.endswith(" : SwarmCallback : INFO : hello\n")
    assert out.count("hello") == 1


def test_logger_must_be_one() -> None:
    with pytest.raises(errors.ParameterError, match="logger: str"):
        _params.default_logger("x")


def test_reasons_become_classes() -> None:
    for reason, cls in errors.Registry.by_reason.items():
        err = errors.from_reason(reason, "message", "remedy")
        assert type(err) is cls
        assert (err.reason, str(err)) == (reason, "message (remedy)")
    other = errors.from_reason("SOMETHING_NEW", "message")
    assert type(other) is errors.SwarmError
    assert (other.reason, str(other)) == ("SOMETHING_NEW", "message")
