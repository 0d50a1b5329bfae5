"""The engine and the client through the framework-free callback, against the fake swarm."""

from __future__ import annotations

import hashlib
import os
import pathlib
import socket
import threading
from typing import Any, Callable, Optional

import numpy as np
import pytest

import swarmlearning
from fakeswarm import FakeSwarm, RefusedError
from helpers import construct, events, together
from swarmlearning import errors
from swarmlearning.arrays import Swarm, SwarmCallback
from swarmlearning.client import Client

MakeSwarm = Callable[..., FakeSwarm]


def make(swarm: FakeSwarm, peer: int, weights: Any, metrics: Any = "", **kwargs: Any) -> SwarmCallback:
    options = {"syncFrequency": 2, "minPeers": len(swarm.peers), "totalEpochs": 2, "weights": weights, **kwargs}
    return construct(swarm.peers[peer].directory, lambda: SwarmCallback(**options), metrics)


def train(callback: SwarmCallback, step: Callable[[], None], batches: int, epochs: int = 1) -> None:
    callback.on_train_begin()
    for epoch in range(epochs):
        for batch in range(batches):
            step()
            callback.on_batch_end(batch)
        callback.on_epoch_end(epoch)
    callback.on_train_end()


def adding(weights: dict[str, np.ndarray], value: float) -> Callable[[], None]:
    def step() -> None:
        weights["w"] += value

    return step


def test_swarm_is_the_callback() -> None:
    assert Swarm is SwarmCallback


def test_three_peers_end_with_the_same_model(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    swarm = make_swarm(3, poll=0.05)
    models = [{"w": np.full((2, 3), float(peer), np.float32), "n": np.array(peer)} for peer in range(3)]
    paths = [tmp_path / f"{peer}.jsonl" for peer in range(3)]
    scores = [lambda model=model: (float(model["w"].sum()), 0.5) for model in models]
    callbacks = [make(swarm, i, models[i], paths[i], evaluate=scores[i], nodeWeightage=1 + i) for i in range(3)]
    together(*(lambda i=i: train(callbacks[i], adding(models[i], 1.0), batches=4, epochs=2) for i in range(3)))

    # (0*1 + 1*2 + 2*3) / 6 at first, then eight steps of one for everybody.
    want = np.full((2, 3), 8 / 6 + 8, np.float32)
    for model in models:
        np.testing.assert_allclose(model["w"], want, rtol=1e-6)
        assert model["n"] == 1
        assert model["n"].shape == ()
    ends = [events(path)[-1] for path in paths]
    assert len({end["model_sha256"] for end in ends}) == 1
    digest = hashlib.sha256(models[0]["w"].tobytes() + models[0]["n"].tobytes()).hexdigest()
    assert ends[0]["model_sha256"] == digest
    assert {end["digest"] for end in ends} == {f"{6:064x}"}
    start = events(paths[2])[0]
    assert start["sync_frequency"] == 2
    assert start["versions"]["numpy"] == np.__version__
    assert start["versions"]["swarmlearning"] == swarmlearning.__version__
    # One round at the beginning, one after every second batch of eight, one at the end.
    assert [end["rounds"] for end in ends] == [6, 6, 6]
    assert [end["round"] for end in ends] == [6, 6, 6]
    assert callbacks[0].training_over


def test_metrics_and_reports(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    swarm = make_swarm(1)
    weights, path = {"w": np.ones(2)}, tmp_path / "m.jsonl"
    callback = make(swarm, 0, weights, path, evaluate=lambda: (float("nan"), 0.25))
    train(callback, adding(weights, 1.0), batches=2)
    got = events(path)
    assert [event["event"] for event in got] == ["start", "merge", "merge", "epoch", "end"]
    assert {k: got[0][k] for k in ("loopback", "total_epochs")} == {"loopback": False, "total_epochs": 2}
    assert got[1]["participants"] == ["sl-0"]
    assert got[1]["contributed"] is True
    assert (got[1]["round"], got[2]["round"], got[2]["loss"], got[2]["metric"]) == (1, 2, None, 0.25)
    assert (got[3]["epoch"], got[3]["round"]) == (1, 2)
    reports = [body for _, path_, body in swarm.log if path_ == "/v1/report"]
    assert [(r["round"], r["loss"], r["metric"], r["epochs_done"], r["total_epochs"]) for r in reports] == [
        (1, None, 0.25, 0, 2), (2, None, 0.25, 0, 2), (0, None, 0.25, 1, 2),
    ]  # fmt: skip
    assert not any("metric_name" in r for r in reports)  # nobody has named it


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("F1 score", "F1 score"),
        ("f1\n\x1b[2J", "f1  [2J"),
        ("\u00fc" * 40, "\u00fc" * 32),
        ("a" * 63 + "\u00fc", "a" * 63),
        ("\u202e ", None),
    ],
)
def test_the_swarm_is_told_what_the_metric_is(make_swarm: MakeSwarm, name: str, told: Optional[str]) -> None:
    swarm = make_swarm(1)
    callback = make(swarm, 0, {"w": np.ones(1)})
    callback.on_train_begin()
    callback.report(0.5, 0.75, name)
    callback.report(0.5)
    callback.report(0.5, 0.8)
    callback.on_train_end()
    sent = [(b["metric"], b.get("metric_name")) for _, path, b in swarm.log if path == "/v1/report" and b["loss"]]
    assert sent == [(0.75, told), (None, None), (0.8, told)]


def test_no_figure_has_another_metrics_name(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    swarm = make_swarm(1)
    callback = make(swarm, 0, {"w": np.ones(1)}, tmp_path / "m.jsonl", evaluate=lambda: (0.25, 0.5))
    callback._model.metric_name = "R2"
    callback.on_train_begin()
    callback.report(0.5, None, "F1")
    callback.report(0.5, 0.75)
    callback.report(0.5, 0.8, "AUC")
    callback._engine.told(0.5, None, "accuracy")
    callback.report(0.5, 0.9)
    callback.on_epoch_end()
    callback.on_train_end()
    reports = [body for _, path, body in swarm.log if path == "/v1/report"]
    assert [(b["metric"], b.get("metric_name")) for b in reports if b["loss"] == 0.5] == [
        (None, None), (0.75, None), (0.8, "AUC"), (0.9, "AUC"),
    ]  # fmt: skip
    assert {(b["metric"], b.get("metric_name")) for b in reports if b["loss"] == 0.25} == {(0.5, "R2")}
    assert {e["metric_name"] for e in events(tmp_path / "m.jsonl") if e.get("metric") is not None} == {"R2"}


def test_open_request(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    train(make(swarm, 0, {"w": np.ones((2, 2), np.float16)}, trainingContract="mine"), lambda: None, 0)
    path, body = next((path, body) for _, path, body in swarm.log)
    assert path == "/v1/session"
    assert body == {
        "contract": "mine", "min_peers": 1, "sync_frequency": 2, "adaptive": False,
        "weight": 1, "total_epochs": 2, "client": "swarmlearning/0.1.0 numpy", "framework": "numpy",
        "tensors": [{"name": "w", "dtype": "float16", "shape": [2, 2]}],
    }  # fmt: skip


def test_merge_method_is_sent_and_its_refusal_shown(make_swarm: MakeSwarm, capsys: pytest.CaptureFixture[str]) -> None:
    swarm = make_swarm(1)
    callback = make(swarm, 0, {"w": np.ones(1)}, mergeMethod="Krum", mergeParams={"f": 2})
    train(callback, lambda: None, 0)
    assert swarm.log[0][2]["method"] == "krum(f=2)"
    line = 'merge method is not valid: there is no "krumm": use one of krum, mean'
    swarm.refuse["/v1/session"] = RefusedError(400, "METHOD", line, "correct mergeMethod")
    callback = make(swarm, 0, {"w": np.ones(1)}, mergeMethod="krumm")
    with pytest.raises(errors.SwarmError) as caught:
        callback.on_train_begin()
    assert str(caught.value) == f"{line} (correct mergeMethod)"
    # It is said once: by whoever catches it, or by Python, when it ends the program.
    assert line not in capsys.readouterr().out


def test_local_arrays_stay(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    swarm = make_swarm(2)
    # Heads differ in shape, which only works because they are not part of the layout.
    models = [{"head.w": np.full(1 + i, 7.0 + i), "w": np.full(2, 4.0 * i), "b": np.full(1, 1.0 * i)} for i in range(2)]
    calls = [make(swarm, i, models[i], tmp_path / str(i), localLayers=["head"]) for i in range(2)]
    together(*(lambda i=i: train(calls[i], adding(models[i], 1.0), 2) for i in range(2)))
    for i, model in enumerate(models):
        np.testing.assert_array_equal(model["head.w"], np.full(1 + i, 7.0 + i))
        np.testing.assert_array_equal(model["w"], [4.0, 4.0])
        np.testing.assert_array_equal(model["b"], [0.5])
    opened = [body["tensors"] for _, path, body in swarm.log if path == "/v1/session"]
    assert [[tensor["name"] for tensor in tensors] for tensors in opened] == [["w", "b"], ["w", "b"]]
    assert len({events(tmp_path / str(i))[-1]["model_sha256"] for i in range(2)}) == 1


def test_local_arrays_are_not_set(make_swarm: MakeSwarm) -> None:
    kept: dict[str, Any] = {"w": np.zeros(2), "mine": np.ones(1)}
    seen: list[list[str]] = []
    train(make(make_swarm(1), 0, None, get=lambda: kept, set=lambda new: seen.append(list(new)), localLayers="mine"),
          lambda: None, 0)  # fmt: skip
    assert seen
    assert all(names == ["w"] for names in seen)


def test_unknown_local_layer_stops_before_a_session(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    callback = make(swarm, 0, {"head": np.ones(1), "w": np.ones(1)}, localLayers=["haed"])
    with pytest.raises(errors.ParameterError, match="'haed' fits no tensor of the model \\(near are 'head'"):
        callback.on_train_begin()
    assert not swarm.log


def test_fedprox_gradients(make_swarm: MakeSwarm) -> None:
    weights = {"w": np.array([1.0, 2.0], np.float32), "n": np.array(3), "mine": np.ones(1)}
    callback = make(make_swarm(1), 0, weights, fedProxMu=0.5, localLayers=["mine"], syncFrequency=3)
    assert callback.fedprox_gradients() == {}
    callback.on_train_begin()
    weights["w"] += np.array([1, -3], np.float32)
    weights["mine"] += 5
    got = callback.fedprox_gradients()
    assert list(got) == ["w"]
    np.testing.assert_array_equal(got["w"], [0.5, -1.5])
    assert got["w"].dtype == np.float32
    for _ in range(3):
        callback.on_batch_end()
    np.testing.assert_array_equal(callback.fedprox_gradients()["w"], [0, 0])
    callback.on_train_end()
    assert make(make_swarm(1), 0, {"w": np.ones(1)}).fedprox_gradients() == {}


@pytest.mark.parametrize("reports", [True, False])
def test_adaptive_interval_with_reports_by_the_program(
    make_swarm: MakeSwarm, capsys: pytest.CaptureFixture[str], reports: bool
) -> None:
    swarm = make_swarm(1)
    weights = {"w": np.zeros(1)}
    callback = make(swarm, 0, weights, useAdaptiveSync=True, syncFrequency=1)
    assert callback.round == 0
    callback.on_train_begin()
    synced, known = [], 1
    for batch in range(7):
        if reports and batch == 0:
            callback.report(4.0)
        # What the swarm will say at the next merge.
        swarm.interval = callback.round + 1
        callback.on_batch_end()
        if callback.round != known:
            known = callback.round
            synced.append(batch)
            if reports:
                callback.report(4.0 / known, 0.5)
    callback.on_train_end()
    # Intervals of 1, 2 and 3 batches.
    assert synced == [0, 2, 5]
    assert swarm.log[0][2]["adaptive"] is True
    sent = [(body["round"], body["loss"]) for _, path, body in swarm.log if path == "/v1/report" and body["loss"]]
    assert sent == ([(1, 4.0), (2, 2.0), (3, 4.0 / 3), (4, 1.0)] if reports else [])
    said = capsys.readouterr().out.count("useAdaptiveSync: no loss was reported for round 1 (measure the merged model")
    assert said == (0 if reports else 1)


def test_adaptive_loss_is_the_merged_models(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(2)
    models = [{"w": np.zeros(1)}, {"w": np.full(1, 8.0)}]
    calls = [make(swarm, i, models[i], useAdaptiveSync=True, syncFrequency=1, evaluate=lambda m=models[i]: float(m["w"][0]))
             for i in range(2)]  # fmt: skip
    together(*(lambda i=i: train(calls[i], adding(models[i], 1.0 + i), 1) for i in range(2)))
    for name in ("sl-0", "sl-1"):
        sent = [(b["round"], b["loss"]) for peer, path, b in swarm.log if path == "/v1/report" and peer == name]
        assert {(1, 4.0), (2, 5.5)} <= set(sent)


def test_an_epochs_loss_does_not_displace_the_merged_models(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    swarm = make_swarm(1)
    weights, path = {"w": np.zeros(1)}, tmp_path / "m"
    train(make(swarm, 0, weights, path, useAdaptiveSync=True, evaluate=lambda: (float(weights["w"][0]), 0.5)),
          adding(weights, 1.0), batches=2, epochs=2)  # fmt: skip
    sent = [
        (b["round"], b["loss"], b["metric"], b["epochs_done"]) for _, route, b in swarm.log if route == "/v1/report"
    ]
    assert sent == [(1, 0.0, 0.5, 0), (2, 2.0, 0.5, 0), (0, None, None, 1), (3, 4.0, 0.5, 1), (0, None, None, 2)]
    assert [event["loss"] for event in events(path) if event["event"] == "epoch"] == [2.0, 4.0]


def test_attributes_of_the_original(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    callback = make(swarm, 0, weights={"w": np.zeros(2)})
    callback.on_train_begin()
    callback.on_epoch_end()
    assert (callback.isSwarmTrainingOver, callback.epochsCompleted, callback.mlPlatform) == (False, 1, "NUMPY")
    assert callback.currentSyncFrequency == callback.sync_frequency


def test_lines_that_scripts_look_for(make_swarm: MakeSwarm, capsys: pytest.CaptureFixture[str]) -> None:
    """Word for word those of the original, in its order."""
    callback = make(make_swarm(1, interval=5), 0, weights={"w": np.zeros(2)}, syncFrequency=3)
    train(callback, lambda: None, 3)
    lines = [line.split(" : ", 3)[-1] for line in capsys.readouterr().out.splitlines()]
    wanted = [
        "Starting Swarm merging round ...",
        "Merge Done: RVInt [cur: 3 Nxt: 5]",
        "Finished local training !!!",
        "No user merge done during swarm training. syncFrequency=5 may be high",
        "All peers and Swarm training rounds finished. Final Swarm model was loaded.",
    ]
    assert [line for line in lines if line in wanted] == wanted


def test_merges_of_the_training_are_told_apart(make_swarm: MakeSwarm, capsys: pytest.CaptureFixture[str]) -> None:
    callback = make(make_swarm(1), 0, weights={"w": np.zeros(2)}, syncFrequency=3)
    train(callback, lambda: None, 3)
    out = capsys.readouterr().out
    assert out.count("Merge Done: RVInt [cur: 3 Nxt: 3]") == 2
    assert "No user merge done" not in out


def test_report_before_training() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SWARM_LOOPBACK", "true")
        callback = SwarmCallback(1, 1, weights={"w": np.ones(1)})
        with pytest.raises(errors.SwarmError, match="report: training has not begun"):
            callback.report(1.0)
        callback.on_train_begin()
        callback.report(1.0)


def test_interval_comes_from_the_reply(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1, interval=3)
    train(make(swarm, 0, {"w": np.ones(1)}), lambda: None, batches=7)
    assert [body["seq"] for _, path, body in swarm.log if path == "/v1/sync"] == [1, 2, 3]


def test_waiting_is_repeated_with_the_same_seq_and_said_once(
    make_swarm: MakeSwarm, capsys: pytest.CaptureFixture[str]
) -> None:
    swarm = make_swarm(2, poll=0.02)
    callbacks = [make(swarm, peer, {"w": np.ones(1)}) for peer in range(2)]

    def second() -> None:
        while sum(path == "/v1/sync" for _, path, _ in list(swarm.log)) < 3:
            threading.Event().wait(0.005)
        train(callbacks[1], lambda: None, 0)

    together(lambda: train(callbacks[0], lambda: None, 0), second)
    out = capsys.readouterr().out
    assert out.count("waiting: more peers (need 2)") == 1
    end = " : SwarmCallback : INFO : All peers and Swarm training rounds finished. Final Swarm model was loaded."
    assert [line.endswith(end) for line in out.splitlines()].count(True) == 2


def test_late_joiner_takes_the_model(
    make_swarm: MakeSwarm, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    swarm = make_swarm(2, poll=0.02)
    first, second = {"w": np.full(2, 4.0)}, {"w": np.full(2, 100.0)}
    early, late = make(swarm, 0, first, minPeers=1), make(swarm, 1, second, tmp_path / "m", minPeers=1)
    early.on_train_begin()
    late.on_train_begin()
    np.testing.assert_array_equal(second["w"], [4.0, 4.0])
    assert events(tmp_path / "m")[1]["contributed"] is False

    def go_on() -> None:
        while not any(path == "/v1/close" for _, path, _ in list(swarm.log)):
            threading.Event().wait(0.005)
        late.on_batch_end()
        assert not late.training_over
        second["w"] += 50
        late.on_batch_end()
        assert late.training_over
        for _ in range(10):
            late.on_batch_end()
        late.on_train_end()

    together(early.on_train_end, go_on)
    assert capsys.readouterr().out.count("a loop of your own may end now: if swarm.training_over: break") == 1
    assert sum(path == "/v1/sync" and name == "sl-1" for name, path, _ in swarm.log) == 2
    np.testing.assert_array_equal(second["w"], first["w"])


# None is what nobody chose: it is left to the daemon.
@pytest.mark.parametrize("mode", ["snapshot", "inactive", None])
def test_checkin_mode(make_swarm: MakeSwarm, mode: Optional[str]) -> None:
    swarm = make_swarm(2, poll=0.05)
    models = [{"w": np.zeros(1)}, {"w": np.zeros(1)}]
    callbacks = [make(swarm, i, models[i], checkinModelOnTrainEnd=mode) for i in range(2)]
    # The first ends at once with 2, the second trains one round of two steps of 4 more.
    together(
        lambda: train(callbacks[0], adding(models[0], 1.0), batches=0),
        lambda: train(callbacks[1], adding(models[1], 4.0), batches=2),
    )
    assert [body.get("mode") for _, path, body in swarm.log if path == "/v1/close"][0] == mode
    np.testing.assert_array_equal(models[0]["w"], models[1]["w"])
    if mode == "inactive":
        np.testing.assert_array_equal(models[0]["w"], [8.0])


def test_get_and_set(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    taken: list[dict[str, np.ndarray]] = []
    value = np.arange(6.0).reshape(2, 3).T  # not contiguous
    callback = make(swarm, 0, None, get=lambda: {"w": value}, set=taken.append)
    train(callback, lambda: None, 0)
    np.testing.assert_array_equal(taken[-1]["w"], value)
    assert taken[-1]["w"].flags.writeable


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "uint8", "int8", "int16", "uint16", "int32",
                                   "uint32", "int64", "uint64", "bool"])  # fmt: skip
def test_dtypes_survive(make_swarm: MakeSwarm, dtype: str) -> None:
    swarm = make_swarm(1)
    weights = {
        "pad": np.array([1], np.uint8),
        "w": np.array([[0, 1, 1]]).astype(dtype),
        "none": np.zeros((0, 2), dtype),
    }
    train(make(swarm, 0, weights), lambda: None, 0)
    assert weights["w"].dtype == dtype
    np.testing.assert_array_equal(weights["w"], np.array([[0, 1, 1]]).astype(dtype))


def test_nan_is_refused_and_the_session_aborted(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    weights = {"good": np.ones(2), "bad": np.ones(2)}
    callback = make(swarm, 0, weights, syncFrequency=1)
    callback.on_train_begin()
    weights["bad"][1] = np.inf
    with pytest.raises(errors.NotFiniteError, match='tensor "bad".*learning rate'):
        callback.on_batch_end()
    assert "bad" in swarm.aborted["sl-0"]
    with pytest.raises(errors.SwarmError, match="on_train_begin first"):
        callback.on_batch_end()


def test_changed_model_is_refused(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    weights = {"w": np.ones(2)}
    callback = make(swarm, 0, weights, syncFrequency=1)
    callback.on_train_begin()
    weights["w"] = np.ones(3)
    with pytest.raises(errors.ModelChangedError, match='tensor "w" \\(float64\\[3\\]\\)'):
        callback.on_batch_end()


def test_daemon_death_while_waiting_is_one_clear_error(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(2, poll=30.0)
    callback = make(swarm, 0, {"w": np.ones(2)})

    def kill() -> None:
        while not any(path == "/v1/sync" for _, path, _ in list(swarm.log)):
            threading.Event().wait(0.005)
        swarm.close()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(errors.DaemonGoneError, match="daemon has ended.*log of the SL daemon") as caught:
        callback.on_train_begin()
    killer.join()
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_no_daemon_at_the_socket(tmp_path: pathlib.Path) -> None:
    callback = construct(str(tmp_path), lambda: SwarmCallback(2, 2, weights={"w": np.ones(1)}))
    with pytest.raises(errors.DaemonGoneError, match=r"no swarm daemon answers at .*bridge.sock"):
        callback.on_train_begin()


def test_closed_idle_connections_are_remade(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    swarm.drop_connections = True
    weights = {"w": np.ones(1)}
    train(make(swarm, 0, weights), adding(weights, 1.0), batches=4)
    np.testing.assert_array_equal(weights["w"], [5.0])


@pytest.mark.parametrize(
    ("path", "reason", "cls"),
    [
        ("/v1/session", "TERMS_MISMATCH", errors.TermsDifferError),
        ("/v1/sync", "SLOT_UNREADABLE", errors.WeightFileError),
        ("/v1/sync", "BRAND_NEW", errors.SwarmError),
        ("/v1/close", "NO_LEADER", errors.UnavailableError),
    ],
)
def test_reasons_of_the_daemon_are_raised(make_swarm: MakeSwarm, path: str, reason: str, cls: type) -> None:
    swarm = make_swarm(1)
    swarm.refuse[path] = RefusedError(409, reason, "no", "do this")
    with pytest.raises(errors.SwarmError) as caught:
        train(make(swarm, 0, {"w": np.ones(1)}), lambda: None, 0)
    assert type(caught.value) is cls
    assert (caught.value.reason, str(caught.value)) == (reason, "no (do this)")


def test_refused_report_does_not_stop_training(make_swarm: MakeSwarm, capsys: pytest.CaptureFixture[str]) -> None:
    swarm = make_swarm(1)
    swarm.refuse["/v1/report"] = RefusedError(400, "BAD_REQUEST", "unknown round")
    train(make(swarm, 0, {"w": np.ones(1)}), lambda: None, 2)
    assert "WARNING : report of round 1 was refused: unknown round" in capsys.readouterr().out


def test_no_bridge_says_how_to_run() -> None:
    with pytest.raises(errors.NoBridgeError, match=r"swarmctl local run .*SWARM_LOOPBACK=true"):
        SwarmCallback(2, 2, weights={"w": np.ones(1)})


def test_loopback(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SWARM_LOOPBACK", "1")
    monkeypatch.setenv("SWARM_METRICS_FILE", str(tmp_path / "m"))
    weights = {"w": np.ones(2, np.float32)}
    callback = SwarmCallback(2, 2, weights=weights, evaluate=lambda: 0.5)
    train(callback, adding(weights, 1.0), batches=5, epochs=2)
    got = events(tmp_path / "m")
    assert [event["event"] for event in got] == ["start", "epoch", "epoch", "end"]
    assert got[-1]["loopback"] is True
    assert (got[-1]["rounds"], got[-1]["loss"]) == (0, 0.5)
    assert got[-1]["model_sha256"] == hashlib.sha256(np.full(2, 11, "<f4").tobytes()).hexdigest()
    assert "Final Swarm model" not in capsys.readouterr().out
    with pytest.raises(errors.ParameterError):
        SwarmCallback(0, 2, weights=weights)


def test_unwritable_metrics_file_is_only_a_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SWARM_LOOPBACK", "1")
    monkeypatch.setenv("SWARM_METRICS_FILE", str(tmp_path / "no" / "such"))
    train(SwarmCallback(2, 2, weights={"w": np.ones(1)}), lambda: None, 1)
    assert capsys.readouterr().out.count("write metrics file") == 1


def test_hooks_in_wrong_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWARM_LOOPBACK", "1")
    callback = SwarmCallback(2, 2, weights={"w": np.ones(1)})
    for hook in (callback.on_batch_end, callback.on_epoch_end, callback.on_train_end):
        with pytest.raises(errors.SwarmError, match="call on_train_begin first"):
            hook()
    callback.on_train_begin()
    with pytest.raises(errors.SwarmError, match="already running .call it once, before the loop over epochs"):
        callback.on_train_begin()


def test_a_second_end_changes_nothing(make_swarm: MakeSwarm, capsys: pytest.CaptureFixture[str]) -> None:
    swarm = make_swarm(1)
    callback = make(swarm, 0, {"w": np.ones(1)})
    train(callback, lambda: None, 2)
    closed = [path for _, path, _ in swarm.log].count("/v1/close")
    callback.on_train_end()
    assert "on_train_end was called again" in capsys.readouterr().out
    assert [path for _, path, _ in swarm.log].count("/v1/close") == closed
    with pytest.raises(errors.SwarmError, match="on_batch_end: training has ended .call on_train_end once, after"):
        callback.on_batch_end()


def test_epochs_that_nobody_told_are_none(
    make_swarm: MakeSwarm, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for epochs, path in ((0, tmp_path / "none"), (2, tmp_path / "two")):
        callback = make(make_swarm(1), 0, {"w": np.ones(1)}, path)
        callback.on_train_begin()
        for _ in range(epochs):
            callback.on_epoch_end()
        callback.on_train_end()
        assert events(path)[-1]["epoch"] == epochs
        assert ("on_epoch_end was never called" in capsys.readouterr().out) == (epochs == 0)


def test_what_a_program_reports_is_an_epochs(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    callback = make(make_swarm(1), 0, {"w": np.ones(1)}, tmp_path / "m")
    callback.on_train_begin()
    callback.report(np.float32(0.5), 0.75)
    callback.on_epoch_end()
    callback.on_epoch_end()
    callback.report(0.25)
    callback.on_train_end()
    epochs = [event for event in events(tmp_path / "m") if event["event"] == "epoch"]
    assert [(event["epoch"], event["loss"], event["metric"]) for event in epochs] == [
        (1, 0.5, 0.75), (2, None, None), (2, 0.25, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "kwargs",
    [{}, {"weights": [1]}, {"weights": {"w": 1.0}}, {"get": dict}, {"weights": {}, "get": dict, "set": dict}],
)
def test_weights_must_be_given_once(kwargs: dict[str, Any]) -> None:
    with pytest.raises(errors.ParameterError, match="weights: "):
        SwarmCallback(2, 2, **kwargs)


def test_second_training_with_the_same_callback(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    callback = make(swarm, 0, {"w": np.ones(1)})
    train(callback, lambda: None, 2)
    swarm.over = False
    swarm.round = 0
    train(callback, lambda: None, 2)
    assert sum(path == "/v1/session" for _, path, _ in swarm.log) == 2


def test_garbage_from_the_daemon_is_a_protocol_error(tmp_path: pathlib.Path) -> None:
    answers = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 500 X\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnope",
    ]
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "bridge.sock"))
        listener.listen()

        def serve() -> None:
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    while not connection.recv(1 << 16).endswith(b"}"):
                        pass
                    connection.sendall(answer)

        server = threading.Thread(target=serve, daemon=True)
        server.start()
        for _ in answers:
            client = Client(str(tmp_path))
            with pytest.raises(errors.ProtocolError, match="daemon answered /v1/report"):
                client.report({})
            client.close()
        server.join(10)


def test_long_socket_path(tmp_path: pathlib.Path) -> None:
    short = FakeSwarm(str(tmp_path / "s"), 1)
    long = tmp_path / ("d" * 120)
    os.symlink(short.peers[0].directory, long)
    with short:
        weights = {"w": np.ones(1)}
        train(construct(str(long), lambda: SwarmCallback(2, 1, weights=weights)), adding(weights, 1.0), 2)
    assert weights["w"] == 3.0
