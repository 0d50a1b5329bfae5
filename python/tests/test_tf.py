from __future__ import annotations

import json
import os
import pathlib
from typing import Any, Callable

import numpy as np
import pytest

from fakeswarm import FakeSwarm
from helpers import construct, events, together

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow")

import swarm as v03
from realswarm import binaries, local_run
from swarmlearning import errors
from swarmlearning.tf import SwarmCallback

keras = tf.keras
MakeSwarm = Callable[..., FakeSwarm]
X = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)
Y = (X.sum(axis=1) > 0).astype(np.float32)


def network(seed: int, metrics: Any = ("accuracy",), dtype: Any = None) -> Any:
    keras.utils.set_random_seed(seed)
    layers = [
        keras.Input((4,)),
        keras.layers.Dense(4, activation="relu", dtype=dtype),
        keras.layers.BatchNormalization(),
        keras.layers.Dense(4, activation="relu"),
        keras.layers.Dropout(0.5),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
    model = keras.Sequential(layers)
    model.compile("adam", loss="binary_crossentropy", metrics=list(metrics) or None)
    return model


def make(swarm: FakeSwarm, peer: int, metrics: Any = "", **kwargs: Any) -> SwarmCallback:
    options = {"syncFrequency": 2, "minPeers": len(swarm.peers), "totalEpochs": 1, **kwargs}
    return construct(swarm.peers[peer].directory, lambda: SwarmCallback(**options), metrics)


def test_peers_become_equal_by_the_hooks(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    swarm = make_swarm(2, poll=0.05)
    models = [network(0), network(1)]
    first = [model.get_weights() for model in models]
    calls = [make(swarm, i, tmp_path / str(i), model=models[i]) for i in range(2)]

    def program(i: int) -> None:
        calls[i].on_train_begin()
        calls[i].on_train_end()

    together(lambda: program(0), lambda: program(1))
    for one, two, a, b in zip(models[0].get_weights(), models[1].get_weights(), *first):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_allclose(one, (a + b) / 2, rtol=1e-5, atol=1e-7)
    names = [tensor["name"] for tensor in swarm.log[0][2]["tensors"]]
    assert len(set(names)) == len(names) == len(first[0])
    assert names[:3] == ["0.kernel", "1.bias", "2.gamma"]
    ends = [events(tmp_path / str(i))[-1] for i in range(2)]
    assert ends[0]["model_sha256"] == ends[1]["model_sha256"]


def test_what_fit_measures_is_the_epochs(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    callback = make(make_swarm(1), 0, tmp_path / "m")
    history = network(0).fit(X, Y, validation_data=(X, Y), epochs=2, verbose=0, callbacks=[callback]).history
    epochs = [event for event in events(tmp_path / "m") if event["event"] == "epoch"]
    assert [event["loss"] for event in epochs] == pytest.approx(history["val_loss"])
    assert [event["metric"] for event in epochs] == pytest.approx(history["val_accuracy"])
    assert {event["metric_name"] for event in epochs} == {"accuracy"}


def test_fit_merges_reports_and_keeps_its_own_metrics(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    swarm = make_swarm(1)
    callback = make(swarm, 0, tmp_path / "m", adsValData=(X, Y), adsValBatchSize=16)
    network(0).fit(X, Y, batch_size=8, epochs=2, verbose=0, callbacks=[callback])
    got = events(tmp_path / "m")
    assert [event["event"] for event in got] == [
        "start", "merge", "merge", "merge", "epoch", "merge", "merge", "epoch", "end",
    ]  # fmt: skip
    assert all(event["loss"] > 0 and 0 <= event["metric"] <= 1 for event in got[1:])
    assert {event["metric_name"] for event in got[1:]} == {"accuracy"}
    assert {body["metric_name"] for _, path, body in swarm.log if path == "/v1/report"} == {"accuracy"}


def test_stop_training_when_the_swarm_is_over(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    callback = make(swarm, 0, syncFrequency=1)
    model = network(0)
    swarm.round, swarm.over, swarm.slot = 3, False, "merged-0"
    swarm.model = [np.zeros(w.shape).ravel() for w in model.get_weights()]
    swarm.over = True
    history = model.fit(X, Y, batch_size=8, epochs=5, verbose=0, callbacks=[callback])
    assert callback.training_over
    assert len(history.epoch) == 1
    assert all(not w.any() for w in model.get_weights())


def test_bfloat16_variables(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    model = network(0, dtype="bfloat16")
    before = model.get_weights()
    callback = make(swarm, 0, model=model)
    callback.on_train_begin()
    assert swarm.log[0][2]["tensors"][0]["dtype"] == "bfloat16"
    for one, two in zip(before, model.get_weights()):
        assert one.dtype == two.dtype
        np.testing.assert_array_equal(one, two)


def test_model_without_metrics_and_dataset(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(16)  # two batches
    callback = make(make_swarm(1), 0, tmp_path / "m", adsValData=data, model=network(0, metrics=()))
    callback.on_train_begin()
    merge = events(tmp_path / "m")[1]
    assert merge["loss"] > 0
    assert merge["metric"] is None


def test_wrong_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWARM_LOOPBACK", "1")
    with pytest.raises(errors.ParameterError, match="adsValData: a tuple of 4"):
        SwarmCallback(1, 1, adsValData=(1, 2, 3, 4))
    with pytest.raises(errors.ParameterError, match="model: is missing"):
        SwarmCallback(1, 1).on_train_begin()


@pytest.mark.parametrize("graph", [{"ml_platform": "TF"}, {"tf": tf}, {"sess": object()}])
def test_graphs_of_tensorflow_1_are_refused(monkeypatch: pytest.MonkeyPatch, graph: dict[str, Any]) -> None:
    monkeypatch.setenv("SWARM_LOOPBACK", "true")
    with pytest.raises(errors.ParameterError, match="TensorFlow 1 are not supported"):
        SwarmCallback(1, 1, **graph)


def test_attributes_of_the_original(make_swarm: MakeSwarm) -> None:
    callback = make(make_swarm(1), 0)
    network(0).fit(X, Y, epochs=2, verbose=0, callbacks=[callback])
    assert (callback.isSwarmTrainingOver, callback.epochsCompleted, callback.currentSyncFrequency) == (True, 2, 2)
    assert (callback.mlPlatform, callback.loopback, callback.logger.name) == ("KERAS", False, "SwarmCallback")
    with pytest.raises(AttributeError, match="did you mean epochsCompleted"):
        callback.epochsComplete


def test_unbuilt_model(make_swarm: MakeSwarm) -> None:
    callback = make(make_swarm(1), 0, model=keras.Sequential([keras.layers.Dense(1)]))
    with pytest.raises(errors.ParameterError, match="build it first"):
        callback.on_train_begin()


def test_version_03(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWARM_LOOPBACK", "1")
    callback = v03.SwarmCallback(sync_interval=4, min_peers=1, val_data=(X, Y), val_batch_size=8, ml_platform="KERAS")
    assert isinstance(callback, SwarmCallback)
    network(0).fit(X, Y, verbose=0, callbacks=[callback])


def test_breast_cancer_example(tmp_path: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The whole way: real daemons, real TensorFlow, each peer also alone."""
    swarm = binaries(tmp_path_factory.mktemp("bin"))
    summary, printed = local_run(swarm, tmp_path, "breast-cancer-tf", "TF", 2)
    print(json.dumps(summary, indent=1))
    assert summary["models_equal"]
    assert len({peer["model_sha256"] for peer in summary["peers"]}) == 1
    together, alone = ([peer[key] for peer in summary["peers"]] for key in ("swarm_accuracy", "local_accuracy"))
    assert min(together) > 0.93
    assert min(together) > min(alone) + 0.02
    assert printed.count("Final Swarm model was loaded.") >= 2
