"""Training that goes on while a merge travels, in Keras."""

from __future__ import annotations

import os
import pathlib
from typing import Any, Callable

import numpy as np
import pytest

from fakeswarm import FakeSwarm
from helpers import construct, events, together

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow")

from swarmlearning.tf import SwarmCallback

keras = tf.keras
MakeSwarm = Callable[..., FakeSwarm]


def make(swarm: FakeSwarm, peer: int, metrics: Any = "", **kwargs: Any) -> SwarmCallback:
    options = {"syncFrequency": 2, "minPeers": len(swarm.peers), "totalEpochs": 1, "overlap": True, **kwargs}
    return construct(swarm.peers[peer].directory, lambda: SwarmCallback(**options), metrics)


def network(peer: int) -> Any:
    """Give a dense layer, batch norm, and a dense layer that is frozen."""
    keras.utils.set_random_seed(peer)
    frozen = keras.layers.Dense(1, name="frozen", trainable=False)
    model = keras.Sequential([
        keras.Input((3,)),
        keras.layers.Dense(2, name="dense"),
        keras.layers.BatchNormalization(name="norm"),
        frozen,
    ])  # fmt: skip
    model.compile("sgd", loss="mse")
    return model


def test_two_peers_compute_what_one_after_another_would(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    swarm = make_swarm(2, poll=0.05)
    models = [network(peer) for peer in range(2)]
    trained = [id(variable) for variable in models[0].trainable_weights]  # Keras 2 marks the layer, not its variables
    learned = [id(variable) in trained for variable in models[0].weights]
    assert learned == [True, True, True, True, False, False, False, False]
    changed = [0, 1, 2, 3, 4, 5]  # all but the frozen layer
    random = np.random.default_rng(5)
    steps = [[[random.random(w.shape, np.float32) + peer for w in models[0].get_weights()] for _ in range(5)]
             for peer in range(2)]  # fmt: skip

    def moved(weights: list[Any], step: list[Any]) -> list[Any]:
        return [w + s if at in changed else w for at, (w, s) in enumerate(zip(weights, step))]

    def mean(values: list[list[Any]]) -> list[Any]:
        return [((a.astype(np.float64) + b.astype(np.float64)) / 2).astype(np.float32) for a, b in zip(*values)]

    merged = [mean([model.get_weights() for model in models])]
    now, sent = [merged[0], merged[0]], [[], []]
    traces: list[list[Any]] = [[], []]
    for batch in range(1, 6):
        now = [moved(now[i], steps[i][batch - 1]) for i in range(2)]
        if batch % 2 == 0:
            for i in range(2):
                if sent[i]:
                    # All grow, so that the statistics are sums too, and what is frozen takes what is merged.
                    now[i] = [m + (w - s) for m, w, s in zip(merged[-1], now[i], sent[i])]
            sent = list(now)
            merged.append(mean(now))
        for trace, values in zip(traces, now):
            trace.append(values)

    seen: list[list[Any]] = [[], []]

    def program(peer: int) -> None:
        callback = make(swarm, peer, tmp_path / str(peer), model=models[peer])
        callback.on_train_begin()
        for step in steps[peer]:
            models[peer].set_weights(moved(models[peer].get_weights(), step))
            callback.on_batch_end()
            seen[peer].append(models[peer].get_weights())
        callback.on_train_end()

    together(lambda: program(0), lambda: program(1))
    for peer in range(2):
        for got, want in zip(seen[peer], traces[peer]):
            for one, two in zip(got, want):
                np.testing.assert_array_equal(one, two)
    for one, two in zip(models[0].get_weights(), models[1].get_weights()):
        np.testing.assert_array_equal(one, two)
    assert events(tmp_path / "0")[-1]["rounds"] == len(merged) + 1


def test_fit(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    swarm = make_swarm(1)
    x = np.random.default_rng(0).normal(size=(32, 3)).astype(np.float32)
    y = x.sum(axis=1)
    model = network(0)
    callback = make(swarm, 0, tmp_path / "m", adsValData=(x, y), adsValBatchSize=16, fedProxMu=0.1)
    before = model.evaluate(x, y, verbose=0)
    model.fit(x, y, batch_size=8, epochs=6, verbose=0, callbacks=[callback])
    got = events(tmp_path / "m")
    # Two hand-overs an epoch of four batches; each is taken at the next one, the last one at the end.
    assert [event["round"] for event in got if event["event"] == "merge"] == list(range(1, 14))
    assert got[-1]["rounds"] == 14
    assert got[-1]["loss"] < before
    assert got[-1]["loss"] == pytest.approx(model.evaluate(x, y, verbose=0), rel=1e-5)


def test_fedprox_pulls_towards_the_last_merged_model(make_swarm: MakeSwarm) -> None:
    # w·x with the loss w·x, whose gradient is x.
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, name="only")])
    model.set_weights([np.ones((1, 1))])
    model.compile(keras.optimizers.SGD(0.1), loss=lambda y_true, y_pred: tf.reduce_mean(y_pred))
    seen: list[float] = []

    class Trace(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: Any, logs: Any = None) -> None:
            seen.append(float(self.model.get_weights()[0][0, 0]))

    x = np.full((7, 1), 3.0, np.float32)
    callback = make(make_swarm(1), 0, fedProxMu=0.5)
    model.fit(x, x, batch_size=1, verbose=0, shuffle=False, callbacks=[callback, Trace()])
    want, now, centre, merged = [], 1.0, 1.0, 1.0
    for batch in range(1, 8):
        now -= 0.1 * (3 + 0.5 * (now - centre))
        if batch % 2 == 0:
            # What was handed in two batches ago comes now: alone, that is what this peer had.
            if batch > 2:
                centre = merged
            merged = now
        want.append(now)
    np.testing.assert_allclose(seen, want, rtol=1e-5)
