"""FedProx and layers that stay local, in Keras."""

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

from swarmlearning import errors
from swarmlearning.tf import SwarmCallback

keras = tf.keras
MakeSwarm = Callable[..., FakeSwarm]


def make(swarm: FakeSwarm, peer: int, metrics: Any = "", **kwargs: Any) -> SwarmCallback:
    options = {"syncFrequency": 2, "minPeers": len(swarm.peers), "totalEpochs": 1, **kwargs}
    return construct(swarm.peers[peer].directory, lambda: SwarmCallback(**options), metrics)


def loss_of_output(y_true: Any, y_pred: Any) -> Any:
    return tf.reduce_mean(y_pred)


def scalar(value: float, **options: Any) -> Any:
    """Give w·x with the loss w·x, whose gradient is x."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, name="only")])
    model.set_weights([np.full((1, 1), value)])
    model.compile(keras.optimizers.SGD(0.1), loss=loss_of_output, **options)
    return model


def weight(model: Any) -> float:
    return float(model.get_weights()[0][0, 0])


class Trace(keras.callbacks.Callback):
    """Keep the weight after each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[float] = []

    def on_train_batch_end(self, batch: Any, logs: Any = None) -> None:
        self.seen.append(weight(self.model))


BY_HAND = [0.7, 0.415, 0.115, 0.115 - 0.1 * (3 + 0.5 * (0.115 - 0.415))]
X = np.full((4, 1), 3.0, np.float32)


@pytest.mark.parametrize("eager", [False, True])
def test_fedprox_by_hand(make_swarm: MakeSwarm, eager: bool) -> None:
    model = scalar(5.0, run_eagerly=eager)
    # A step that was traced before, without the callback.
    model.fit(X[:1], X[:1], batch_size=1, verbose=0)
    model.set_weights([np.ones((1, 1))])
    trace = Trace()
    callback = make(make_swarm(1), 0, fedProxMu=0.5)
    model.fit(X, X, batch_size=1, verbose=0, shuffle=False, callbacks=[trace, callback])
    # At the merged model nothing pulls: 1 - 0.1*3. Then 0.7 - 0.1*(3 + 0.5*(0.7 - 1)); after two, the next merge.
    np.testing.assert_allclose(trace.seen, BY_HAND, rtol=1e-6)
    # The next fit, without the callback, is as before.
    assert "apply" not in vars(model.optimizer)
    before = weight(model)
    model.fit(X[:2], X[:2], batch_size=1, verbose=0)
    assert weight(model) == pytest.approx(before - 0.6, abs=1e-6)


def test_fedprox_under_a_scaled_loss(make_swarm: MakeSwarm) -> None:
    model = scalar(1.0)
    inner = keras.optimizers.SGD(0.1)
    wrap = getattr(keras.optimizers, "LossScaleOptimizer", None) or keras.mixed_precision.LossScaleOptimizer
    model.compile(wrap(inner, initial_scale=8.0), loss=loss_of_output)
    trace = Trace()
    model.fit(X, X, batch_size=1, verbose=0, shuffle=False, callbacks=[trace, make(make_swarm(1), 0, fedProxMu=0.5)])
    np.testing.assert_allclose(trace.seen, BY_HAND, rtol=1e-6)


def test_fedprox_with_a_fixed_loss_scale(make_swarm: MakeSwarm) -> None:
    model = scalar(1.0)
    model.compile(keras.optimizers.SGD(0.1, loss_scale_factor=16.0), loss=loss_of_output)
    trace = Trace()
    model.fit(X, X, batch_size=1, verbose=0, shuffle=False, callbacks=[trace, make(make_swarm(1), 0, fedProxMu=0.5)])
    np.testing.assert_allclose(trace.seen, BY_HAND, rtol=1e-6)


def test_fedprox_in_a_loop_of_ones_own(make_swarm: MakeSwarm) -> None:
    model = scalar(1.0)
    optimizer = keras.optimizers.SGD(0.1)
    callback = make(make_swarm(1), 0, model=model, fedProxMu=0.5, fedProxHook=False)
    callback.on_train_begin()
    seen = []
    for _ in range(4):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(X[:1])) + callback.fedprox_loss()
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_weights), model.trainable_weights))
        seen.append(weight(model))
        callback.on_batch_end()
    callback.on_train_end()
    np.testing.assert_allclose(seen, BY_HAND, rtol=1e-6)
    assert float(callback.fedprox_loss()) == 0


def test_fedprox_needs_an_optimizer(make_swarm: MakeSwarm) -> None:
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    with pytest.raises(errors.ParameterError, match="fedProxMu: the model has no optimizer"):
        make(make_swarm(1), 0, model=model, fedProxMu=0.5).on_train_begin()


def personal(seed: int, classes: int) -> Any:
    keras.utils.set_random_seed(seed)
    layers = [
        keras.Input((3,)),
        # Each peer has layers of its own in front, too: numbers of what is merged do not count them.
        *(keras.layers.Dense(3, name=f"own{i}") for i in range(seed)),
        keras.layers.Dense(4, name="body"),
        keras.layers.BatchNormalization(name="bn1"),
        keras.layers.Dense(classes, name="head"),
    ]
    model = keras.Sequential(layers)
    model.compile("sgd", loss="mse")
    model.get_layer("bn1").moving_mean.assign(np.full(4, float(seed)))
    return model


def inner(variable: Any) -> str:
    """Give "layer/weight": Keras 3 puts the model's name before it, Keras 2 a number behind."""
    return variable.path.split("/", 1)[-1] if hasattr(variable, "path") else variable.name.split(":")[0]


def test_local_layers_stay_and_the_rest_is_merged(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    swarm = make_swarm(2)
    models = [personal(seed + 1, 2 + seed) for seed in range(2)]
    first = [{inner(v): v.numpy() for v in model.weights} for model in models]
    names = ["own*", "bn*/moving_*", "head.*"]
    calls = [make(swarm, i, tmp_path / str(i), model=models[i], localLayers=names, fedProxMu=0.1) for i in range(2)]

    def program(i: int) -> None:
        calls[i].on_train_begin()
        calls[i].on_train_end()

    together(lambda: program(0), lambda: program(1))
    for i, model in enumerate(models):
        for v in model.weights:
            name = inner(v)
            stays = name.startswith(("own", "head", "bn1/moving"))
            want = first[i][name] if stays else (first[0][name] + first[1][name]) / 2
            np.testing.assert_allclose(v.numpy(), want, rtol=1e-6, err_msg=name)
    opened = [[t["name"] for t in body["tensors"]] for _, path, body in swarm.log if path == "/v1/session"]
    assert opened == [["0.kernel", "1.bias", "2.gamma", "3.beta"]] * 2
    assert len({events(tmp_path / str(i))[-1]["model_sha256"] for i in range(2)}) == 1


def test_unknown_local_layer_names_near_ones(make_swarm: MakeSwarm) -> None:
    callback = make(make_swarm(1), 0, model=personal(1, 2), localLayers=["haed"])
    with pytest.raises(errors.ParameterError, match=r"'haed' fits no tensor of the model \(near are 'head'"):
        callback.on_train_begin()


def test_merge_method_is_sent(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    callback = make(swarm, 0, model=personal(1, 2), mergeMethod="TrimmedMean", mergeParams={"share": 0.1})
    callback.on_train_begin()
    callback.on_train_end()
    assert swarm.log[0][2]["method"] == "trimmedmean(share=0.1)"


def test_adaptive_sync_measures_merged_models(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    with pytest.raises(errors.ParameterError, match="useAdaptiveSync: is on without adsValData"):
        make(swarm, 0, useAdaptiveSync=True)
    model = scalar(1.0)
    callback = make(swarm, 0, useAdaptiveSync=True, adsValData=(X, X), syncFrequency=1)
    swarm.interval = 3
    model.fit(X, X, batch_size=1, verbose=0, shuffle=False, callbacks=[callback])
    reports = [body for _, path, body in swarm.log if path == "/v1/report"]
    sent = [(body["round"], round(body["loss"], 4)) for body in reports if body["round"]]
    # The loss 3w: of 1, and three steps of 0.3 later. The epoch's loss would displace the merged model's.
    assert sent == [(1, 3.0), (2, 0.3)]
    assert [body["loss"] for body in reports if not body["round"]] == [None]
