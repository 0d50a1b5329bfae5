from __future__ import annotations

import logging

import numpy as np
import pytest

import swarmlearning
from swarmlearning import _params, errors

LOG = logging.getLogger("test")


def check(**kwargs: object) -> _params.Params:
    positional = [kwargs.pop("syncFrequency", 4), kwargs.pop("minPeers", 2), kwargs.pop("trainingContract", "c")]
    return _params.check(*positional, kwargs, LOG)


def test_defaults() -> None:
    assert check().terms() == {
        "contract": "c", "min_peers": 2, "sync_frequency": 4, "adaptive": False, "checkin_mode": "snapshot",
        "weight": 1, "method": "mean", "total_epochs": 0,
    }  # fmt: skip


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
        ("checkinModelOnTrainEnd", "sleep", "inactive, snapshot, active"),
        ("nodeWeightage", 101, "from 1 to 100"),
        ("nodeWeightage", 0, "from 1 to 100"),
        ("mergeMethod", "max", "mean, coordmedian, geomedian"),
        ("mergeMethod", 3, "mean, coordmedian, geomedian"),
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


def test_unknown_parameters_are_said_and_ignored(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        check(syncInterval=3)
    assert "parameter syncInterval is not known" in caplog.text


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
