"""Peers whose program is several workers of a MultiWorkerMirroredStrategy."""

from __future__ import annotations

import importlib.metadata
import json
import logging
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, Callable

import pytest

from fakeswarm import FakeSwarm
from helpers import construct

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow")

from swarmlearning import _tf_ranks, errors
from swarmlearning._rank_sockets import KEY_BYTES, LATE_SECONDS
from swarmlearning.tf import SwarmCallback

MakeSwarm = Callable[..., FakeSwarm]
LOGGER = logging.getLogger("ranks")
KERAS_3 = str(getattr(tf.keras, "__version__", "2")).startswith("3")

# Both kinds of training: a loop of one's own, which calls the hooks, and fit.
PROGRAM = """
import hashlib, json, os, sys
import numpy as np
import tensorflow as tf
import swarmlearning._ranks
from swarmlearning.tf import SwarmCallback

keras = tf.keras
swarmlearning._ranks.BEAT_SECONDS = 0.2
options = json.loads(sys.argv[1])
strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank = strategy.cluster_resolver.task_id
keras.utils.set_random_seed(options["seed"])
with strategy.scope():
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(4), keras.layers.BatchNormalization(),
                              keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1)
    model.compile(optimizer, loss="mse")
if options["loop"]:
    swarm = SwarmCallback(syncFrequency=3, minPeers=options["peers"], totalEpochs=2, model=model)
else:
    with strategy.scope():
        swarm = SwarmCallback(syncFrequency=3, minPeers=options["peers"], totalEpochs=2)
random = np.random.default_rng(rank)
x = random.normal(size=(7 * 4, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)

def ready(when):
    if options.get("die") == rank and when == options["when"]:
        with open(options["ready"], "w") as out:
            out.write(str(os.getpid()))

@tf.function
def step(x, y):
    def replica(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2) / strategy.num_replicas_in_sync
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    strategy.run(replica, (x, y))

def mine(variable):
    held = variable if callable(variable.value) else variable.value
    return held.values[0]

def nudge():
    # This worker's own last bits.
    for variable in model.trainable_weights:
        up = random.random(variable.shape) < 0.5
        mine(variable).assign(np.nextafter(mine(variable).numpy(), np.where(up, 9, -9).astype("float32")))

def train_apart(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ mine(model.trainable_weights[0])) ** 2)
    variable = mine(model.trainable_weights[0])
    variable.assign_sub(1e-4 * tape.gradient(loss, variable))

if options["loop"]:
    ready("waits")
    swarm.on_train_begin()
    ready("trains")
    for epoch in range(2):
        for batch in range(7):
            part = slice(4 * batch, 4 * batch + 4)
            (train_apart if options.get("apart") else step)(tf.constant(x[part]), tf.constant(y[part]))
            if options.get("noise"):
                nudge()
            swarm.on_batch_end(samples=4)
        swarm.on_epoch_end(epoch)
    swarm.on_train_end()
else:
    model.fit(x, y, batch_size=8, epochs=2, steps_per_epoch=3, verbose=0, callbacks=[swarm])

digest = hashlib.sha256(b"".join(mine(variable).numpy().tobytes() for variable in model.weights)).hexdigest()
with open(options["out"] + str(rank), "w") as out:
    json.dump({"digest": digest, "round": swarm.round, "samples": swarm.samples}, out)
"""

Start = Callable[..., "list[subprocess.Popen[str]]"]


def ports(count: int) -> list[int]:
    """Give ports that are free now."""
    held = [socket.create_server(("localhost", 0)) for _ in range(count)]
    numbers = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return numbers


@pytest.fixture
def start(tmp_path: pathlib.Path) -> Iterator[Start]:
    """Start a peer's program, once for each worker."""
    started: list[subprocess.Popen[str]] = []

    def workers(swarm: FakeSwarm, peer: int, count: int, loop: bool, **options: Any) -> list[subprocess.Popen[str]]:
        (tmp_path / "train.py").write_text(PROGRAM)
        options = {
            "seed": peer,
            "peers": len(swarm.peers),
            "out": str(tmp_path / f"peer-{peer}-"),
            "loop": loop,
            **options,
        }
        cluster = {"worker": [f"localhost:{port}" for port in ports(count)]}
        mine = []
        for rank in range(count):
            env = {
                **os.environ,
                "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
                "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}}),
                "TF_CPP_MIN_LOG_LEVEL": "3",
                "CUDA_VISIBLE_DEVICES": "",
                "OMP_NUM_THREADS": "1",
            }
            if rank == 0:
                env["SWARM_BRIDGE_DIR"] = swarm.peers[peer].directory
            if KERAS_3 and not loop:
                env["TF_USE_LEGACY_KERAS"] = "1"
            mine.append(
                subprocess.Popen(
                    [sys.executable, str(tmp_path / "train.py"), json.dumps(options)],
                    env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                )
            )  # fmt: skip
        started.extend(mine)
        return mine

    yield workers
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("loop", [True, False], ids=["loop", "fit"])
def test_workers_are_one_peer(make_swarm: MakeSwarm, start: Start, tmp_path: pathlib.Path, loop: bool) -> None:
    """A peer of two workers and one of one: all processes end with the same bytes, whatever processors round."""
    swarm = make_swarm(2, poll=0.2)
    processes = start(swarm, 0, 2, loop, noise=True) + start(swarm, 1, 1, loop)
    for process in processes:
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, out
    results = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("peer-*"))]
    assert len(results) == 3
    assert len({result["digest"] for result in results}) == 1, results
    assert len({result["round"] for result in results}) == 1, results
    assert [result["samples"] for result in results] == (
        [2 * 2 * 7 * 4, 2 * 2 * 7 * 4, 2 * 7 * 4] if loop else [None] * 3
    )
    opened = [entry[2] for entry in swarm.log if entry[1] == "/v1/session"]
    assert len(opened) == 2, "rank 0 alone opens a session"
    assert opened[0]["tensors"] == opened[1]["tensors"], "the names are those of a peer of one worker"


def test_workers_that_train_apart_are_found(make_swarm: MakeSwarm, start: Start) -> None:
    for worker in start(make_swarm(1), 0, 2, True, apart=True):
        out, _ = worker.communicate(timeout=120)
        assert worker.returncode != 0, out
        assert "UnevenRanksError: rank 1 merges in epoch 1 after 3 batches with other weights than rank 0" in out
        assert "inside strategy.run" in out


@pytest.mark.parametrize("when", ["waits", "trains"])
def test_a_killed_worker_ends_its_peer(make_swarm: MakeSwarm, start: Start, tmp_path: pathlib.Path, when: str) -> None:
    """Rank 1 is killed while rank 0 waits for the other peer or trains: the swarm is told, and nobody waits for ever."""
    swarm = make_swarm(2, poll=0.2)
    ready = tmp_path / "ready"
    first, second = start(swarm, 0, 2, True, die=1, when=when, ready=str(ready))
    if when == "trains":
        start(swarm, 1, 1, True, out=str(tmp_path / "other-"))
    end = time.monotonic() + 60
    while not ready.exists() or not ready.read_text() or "/v1/sync" not in [entry[1] for entry in swarm.log]:
        assert second.poll() is None and first.poll() is None and time.monotonic() < end
        time.sleep(0.01)
    os.kill(int(ready.read_text()), signal.SIGKILL)
    out, _ = first.communicate(timeout=120)
    assert first.returncode != 0, out
    assert when == "trains" or "RankLostError: rank 1 has ended or left" in out, out
    assert ("sl-0", "/v1/abort") in [entry[:2] for entry in swarm.log], "the swarm is told"


def test_tensorflow_is_installed_once() -> None:
    """tf-keras asks for tensorflow, whose files are those of tensorflow-cpu, with more of them for GPUs."""
    names = {distribution.metadata["Name"].replace("_", "-") for distribution in importlib.metadata.distributions()}
    assert len(names & {"tensorflow", "tensorflow-cpu"}) == 1


def model_of(strategy: Any) -> Any:
    with strategy.scope():
        return tf.keras.Sequential([tf.keras.layers.Input((2,)), tf.keras.layers.Dense(1)])


def worker(monkeypatch: pytest.MonkeyPatch, cluster: dict[str, list[str]], job: str = "worker", index: int = 1) -> None:
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": job, "index": index}}))


TWO = {"worker": ["node-0.example:12345", "node-1.example:12345"]}


@pytest.mark.parametrize(
    ("cluster", "job", "index", "place"),
    [
        (TWO, "worker", 1, (1, 2, "node-0.example")),
        ({"worker": ["[::1]:1"], "chief": ["[fd00::1]:1"]}, "chief", 0, (0, 2, "fd00::1")),
        ({"worker": ["b:1"], "chief": ["a:1"]}, "worker", 0, (1, 2, "a")),
        ({**TWO, "evaluator": ["c:1"]}, "evaluator", 0, None),
        ({"worker": ["a:1"]}, "worker", 0, None),
    ],
)
def test_places(monkeypatch: pytest.MonkeyPatch, cluster: Any, job: str, index: int, place: Any) -> None:
    """Workers are numbered as TensorFlow numbers them."""
    worker(monkeypatch, cluster, job, index)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    assert _tf_ranks._place(resolver) == place
    assert (_tf_ranks.joined(model_of(several(monkeypatch)), LOGGER) is None) == (place is None)
    with several(monkeypatch).scope():
        assert (_tf_ranks.joined(None, LOGGER) is None) == (place is None)
    assert _tf_ranks.joined(model_of(tf.distribute.OneDeviceStrategy("/cpu:0")), LOGGER) is None


def several(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give a strategy that takes itself for one of the workers of TF_CONFIG, which waits for none."""

    class Several(tf.distribute.OneDeviceStrategy):  # type: ignore[misc]
        cluster_resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()

    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", Several)
    return Several("/cpu:0")


def test_the_key_waits_for_workers_that_load_their_data(monkeypatch: pytest.MonkeyPatch) -> None:
    options, limits = tf.distribute.experimental.CommunicationOptions, []

    def noted(timeout_seconds: float) -> Any:
        limits.append(timeout_seconds)
        return options(timeout_seconds=timeout_seconds)

    monkeypatch.setattr(tf.distribute.experimental, "CommunicationOptions", noted)
    key = bytes(range(KEY_BYTES))
    assert _tf_ranks._from_rank_0(tf.distribute.OneDeviceStrategy("/cpu:0"), key) == key
    assert limits == [LATE_SECONDS]


@pytest.mark.parametrize(
    ("text", "warns"),
    [
        (json.dumps({"cluster": {"ps": ["c:1"], "worker": ["a:1", "b:1"]}}), True),
        ("", False),
        ("{", False),
        ("[]", False),
    ],
)
def test_tf_config_alone_makes_no_ranks(
    make_swarm: MakeSwarm, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, text: str, warns: bool
) -> None:
    """Programs that train each for itself may have it, and a program of one process one that can't be read."""
    monkeypatch.setenv("TF_CONFIG", text)
    # TensorFlow before 2.4 has none.
    monkeypatch.delattr(tf.distribute, "MultiWorkerMirroredStrategy")
    swarm, model = make_swarm(1), model_of(tf.distribute.get_strategy())
    with caplog.at_level("WARNING", "ranks"):
        callback = construct(
            swarm.peers[0].directory, lambda: SwarmCallback(syncFrequency=1, minPeers=1, model=model, logger=LOGGER)
        )
    assert any("TF_CONFIG names 2 workers" in text for text in caplog.messages) == warns
    callback.on_train_begin()
    callback.on_train_end()
    assert callback.round > 0


def test_loopback_knows_no_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ranks can't do, they can where there is no swarm."""
    monkeypatch.setenv("SWARM_LOOPBACK", "true")
    worker(monkeypatch, TWO)
    model = model_of(several(monkeypatch))
    callback = SwarmCallback(syncFrequency=1, minPeers=1, model=model, fedProxMu=0.1, overlap=True)
    callback.on_train_begin()
    callback.on_train_end()


def test_what_workers_can_not_do_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    worker(monkeypatch, TWO)
    strategy = several(monkeypatch)
    model = model_of(strategy)

    def refused(match: str, **options: Any) -> None:
        with pytest.raises(errors.ParameterError, match=match):
            SwarmCallback(syncFrequency=1, minPeers=1, **{"model": model, **options})

    refused("adsValData: a MultiWorkerMirroredStrategy can't measure", adsValData=([], []))
    refused("fedProxMu: a MultiWorkerMirroredStrategy adds up", fedProxMu=0.1)
    refused("overlap: a peer of several ranks", overlap=True)
    if KERAS_3:
        with strategy.scope():
            refused("fit: of Keras 3 .*TF_USE_LEGACY_KERAS=1", model=None)
    callback = SwarmCallback(syncFrequency=1, minPeers=1, model=model)
    callback.set_model(model_of(tf.distribute.OneDeviceStrategy("/cpu:0")))
    with pytest.raises(errors.ParameterError, match="model: is not trained by the MultiWorkerMirroredStrategy that"):
        callback.on_train_begin()


def test_parameter_servers_are_refused(make_swarm: MakeSwarm) -> None:
    class ParameterServerStrategyV2(tf.distribute.OneDeviceStrategy):  # type: ignore[misc]
        """As TensorFlow names its own, which needs servers."""

    model = model_of(ParameterServerStrategyV2("/cpu:0"))
    with pytest.raises(errors.ParameterError, match="ParameterServerStrategy: keeps the weights on servers"):
        construct(make_swarm(1).peers[0].directory, lambda: SwarmCallback(syncFrequency=1, minPeers=1, model=model))
    callback = construct(make_swarm(1).peers[0].directory, lambda: SwarmCallback(syncFrequency=1, minPeers=1))
    callback.set_model(model)
    with pytest.raises(errors.ParameterError, match="ParameterServerStrategy: keeps the weights on servers"):
        callback.on_train_begin()


def test_workers_that_are_found_too_late_are_refused(make_swarm: MakeSwarm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without TF_CONFIG, and outside of the strategy's scope, the callback can't know."""
    callback = construct(make_swarm(1).peers[0].directory, lambda: SwarmCallback(syncFrequency=1, minPeers=1))
    monkeypatch.setattr(_tf_ranks, "_spans", lambda strategy: True)
    callback.set_model(model_of(tf.distribute.OneDeviceStrategy("/cpu:0")))
    with pytest.raises(errors.ParameterError, match="model: is trained by several workers, .*within strategy.scope"):
        callback.on_train_begin()
