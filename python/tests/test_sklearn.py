from __future__ import annotations

import pathlib
from typing import Any, Callable

import numpy as np
import pytest

from fakeswarm import FakeSwarm
from helpers import construct, events, together

sklearn = pytest.importorskip("sklearn")

from sklearn.cluster import MiniBatchKMeans
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier, SGDRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from swarmlearning import errors
from swarmlearning.sklearn import SwarmCallback

MakeSwarm = Callable[..., FakeSwarm]
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(60, 4))
Y = (X[:, 0] + X[:, 1] > 0).astype(int) + (X[:, 2] > 1)


def make(swarm: FakeSwarm, peer: int, model: Any, metrics: Any = "", **kwargs: Any) -> SwarmCallback:
    options = {"syncFrequency": 2, "minPeers": len(swarm.peers), "totalEpochs": 1, "model": model, **kwargs}
    return construct(swarm.peers[peer].directory, lambda: SwarmCallback(**options), metrics)


def coefficients(model: Any) -> list[Any]:
    return [*model.coefs_, *model.intercepts_] if hasattr(model, "coefs_") else [model.coef_, model.intercept_]


@pytest.mark.parametrize(
    "new",
    [
        lambda: SGDClassifier(loss="log_loss", random_state=0),
        lambda: SGDClassifier(loss="hinge", random_state=0),
        lambda: MLPClassifier((5,), random_state=0),
    ],
)
def test_partial_fit_in_step(make_swarm: MakeSwarm, tmp_path: pathlib.Path, new: Callable[[], Any]) -> None:
    swarm = make_swarm(2, poll=0.05)
    models = [new().partial_fit(X[i : i + 1], Y[i : i + 1], classes=[0, 1, 2]) for i in range(2)]

    def program(i: int) -> None:
        callback = make(swarm, i, models[i], tmp_path / str(i), adsValData=(X, Y))
        callback.on_train_begin()
        for start in range(i * 30, i * 30 + 30, 5):
            models[i].partial_fit(X[start : start + 5], Y[start : start + 5])
            callback.on_batch_end()
        callback.on_epoch_end()
        callback.on_train_end()
        assert (callback.mlPlatform, callback.epochsCompleted) == ("SKLEARN", 1)

    together(lambda: program(0), lambda: program(1))
    for one, two in zip(coefficients(models[0]), coefficients(models[1])):
        np.testing.assert_array_equal(one, two)
    ends = [events(tmp_path / str(i))[-1] for i in range(2)]
    assert ends[0]["model_sha256"] == ends[1]["model_sha256"]
    assert ends[0]["loss"] == ends[1]["loss"] > 0
    assert ends[0]["metric"] == pytest.approx(models[0].score(X, Y))


def test_fit_and_regression(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    # One merge of what each has fitted: the mean of the coefficients; a linear regression's intercept is no array.
    swarm = make_swarm(2, poll=0.05)
    models = [
        LinearRegression().fit(X[i * 30 : i * 30 + 30], X[i * 30 : i * 30 + 30] @ [1, 2, 3, 4] + i) for i in (0, 1)
    ]
    want = (models[0].intercept_ + models[1].intercept_) / 2

    def program(i: int) -> None:
        callback = make(swarm, i, models[i], tmp_path / str(i), adsValData=(X, X @ [1, 2, 3, 4] + 0.5))
        callback.on_train_begin()
        callback.on_train_end()

    together(lambda: program(0), lambda: program(1))
    assert models[0].intercept_ == models[1].intercept_ == pytest.approx(want)
    end = events(tmp_path / "0")[-1]
    assert end["loss"] == pytest.approx(0, abs=1e-9)
    assert end["metric"] == pytest.approx(1)


def test_named_parameters(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    make(swarm, 0, GaussianNB().fit(X, Y), parameters=["theta_", "var_"]).on_train_begin()
    assert [tensor["name"] for tensor in swarm.log[0][2]["tensors"]] == ["theta_", "var_"]


@pytest.mark.parametrize(
    ("model", "kwargs", "text"),
    [
        (lambda: None, {}, "model: NoneType"),
        (lambda: SGDRegressor(), {}, "this SGDRegressor has no coefficients .*partial_fit"),
        (lambda: StandardScaler().fit(X), {}, "this StandardScaler has no coefficients"),
        (lambda: MiniBatchKMeans(2, n_init=1).fit(X), {"parameters": ["centers_"]}, "has no centers_"),
        (lambda: LogisticRegression().fit(X, Y), {"adsValData": X}, "adsValData: ndarray .*tuple"),
        (lambda: LogisticRegression().fit(X, Y), {"ml_platform": "NUMPY"}, "ml_platform: 'NUMPY' does not fit"),
    ],
)
def test_wrong_parameters(
    monkeypatch: pytest.MonkeyPatch, model: Callable[[], Any], kwargs: dict[str, Any], text: str
) -> None:
    monkeypatch.setenv("SWARM_LOOPBACK", "true")
    with pytest.raises(errors.ParameterError, match=text):
        SwarmCallback(1, 1, model=model(), **kwargs)
