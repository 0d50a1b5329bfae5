"""Training that goes on while a merge travels, through the framework-free callback, against the fake swarm."""

from __future__ import annotations

import gc
import math
import os
import pathlib
import select
import signal
import subprocess
import sys
import threading
import time
from fractions import Fraction
from typing import Any, Callable

import numpy as np
import pytest

from fakeswarm import FakeSwarm, RefusedError
from helpers import construct, events, together
from swarmlearning import client as clients
from swarmlearning import errors
from swarmlearning._overlap import carry
from swarmlearning.arrays import SwarmCallback

MakeSwarm = Callable[..., FakeSwarm]
SRC = pathlib.Path(__file__).resolve().parents[1] / "src"


def make(swarm: FakeSwarm, peer: int, weights: Any, metrics: Any = "", **kwargs: Any) -> SwarmCallback:
    options = {"syncFrequency": 2, "minPeers": len(swarm.peers), "totalEpochs": 1, "weights": weights, "overlap": True,
               **kwargs}  # fmt: skip
    return construct(swarm.peers[peer].directory, lambda: SwarmCallback(**options), metrics)


def mapped(swarm: FakeSwarm) -> list[str]:
    """List what of the swarm's weight files this process has mapped."""
    gc.collect()
    folder = os.path.dirname(swarm.peers[0].directory)
    return [line for line in pathlib.Path("/proc/self/maps").read_text().splitlines() if folder in line]


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        threading.Event().wait(0.005)


def committed(swarm: FakeSwarm) -> int:
    """Give the last round, when its answers are made too."""
    with swarm.changed:
        return swarm.round


def connections_end(swarm: FakeSwarm) -> bool:
    wait_for(lambda: not swarm.peers[0].connections)
    return True


def syncs(swarm: FakeSwarm) -> list[int]:
    """List the numbers of the merges that were asked for, each once."""
    return list(dict.fromkeys(body["seq"] for _, path, body in list(swarm.log) if path == "/v1/sync"))


# Three peers pull their weights to targets of their own, with weights of 1, 2 and 3 in the merge.
TARGETS = [np.linspace(-3, 5, 7, dtype=np.float32) * np.float32(1 + i) for i in range(3)]
RATE = np.float32(0.1)


def begin(peer: int) -> np.ndarray:
    return np.random.default_rng(peer).normal(size=7).astype(np.float32)


def simulate(overlap: list[bool], interval: int, batches: int) -> tuple[list[list[np.ndarray]], list[np.ndarray]]:
    """Compute in turn what the peers compute at once: each one's weights after each batch, and the merged models."""

    def mean(values: list[np.ndarray]) -> np.ndarray:
        terms = [(1 + i) * value.astype(np.float64) for i, value in enumerate(values)]
        return ((terms[0] + terms[1] + terms[2]) / 6).astype(np.float32)

    models = [mean([begin(i) for i in range(3)])]
    now = [models[0].copy() for _ in range(3)]
    sent: list[Any] = [None] * 3
    traces: list[list[np.ndarray]] = [[], [], []]
    for batch in range(1, batches + 1):
        now = [value + RATE * (TARGETS[i] - value) for i, value in enumerate(now)]
        if batch % interval == 0:
            now = [models[-1] + (now[i] - sent[i]) if sent[i] is not None else now[i] for i in range(3)]
            models.append(mean(now))
            sent = [now[i] if overlap[i] else None for i in range(3)]
            now = [now[i] if overlap[i] else models[-1] for i in range(3)]
        for trace, value in zip(traces, now):
            trace.append(value)
    models.append(mean([models[-1] + (now[i] - sent[i]) if sent[i] is not None else now[i] for i in range(3)]))
    return traces, models


@pytest.mark.parametrize("overlap", [[True] * 3, [True, False, True], [False, True, False], [False] * 3])
@pytest.mark.parametrize(("interval", "batches"), [(1, 5), (3, 12), (3, 14), (4, 4), (4, 3)])
def test_three_peers_compute_what_one_after_another_would(
    make_swarm: MakeSwarm, tmp_path: pathlib.Path, overlap: list[bool], interval: int, batches: int
) -> None:
    swarm = make_swarm(3, poll=0.05)
    weights = [{"w": begin(peer)} for peer in range(3)]
    traces: list[list[np.ndarray]] = [[], [], []]
    calls = [
        make(swarm, i, weights[i], tmp_path / str(i), overlap=overlap[i], syncFrequency=interval, nodeWeightage=1 + i)
        for i in range(3)
    ]

    def program(peer: int) -> None:
        calls[peer].on_train_begin()
        for batch in range(batches):
            weights[peer]["w"] += RATE * (TARGETS[peer] - weights[peer]["w"])
            calls[peer].on_batch_end(batch)
            traces[peer].append(weights[peer]["w"].copy())
        calls[peer].on_train_end()

    together(*(lambda i=i: program(i) for i in range(3)))
    want, models = simulate(overlap, interval, batches)
    np.testing.assert_array_equal(traces, want)
    for peer in range(3):
        np.testing.assert_array_equal(weights[peer]["w"], models[-1])
        got = events(tmp_path / str(peer))
        assert [event["round"] for event in got if event["event"] == "merge"] == list(range(1, len(models)))
        assert (got[-1]["event"], got[-1]["rounds"]) == ("end", len(models))
    assert mapped(swarm) == []


@pytest.mark.parametrize("poll", [0.02, 30.0])
def test_training_goes_on_until_the_next_merge_is_due(make_swarm: MakeSwarm, poll: float) -> None:
    """The daemon holds a merge back until four batches were trained after it was asked for; waiting would not end."""
    swarm = make_swarm(1, poll=poll)
    weights = {"w": np.zeros(1, np.float32)}
    callback = make(swarm, 0, weights, syncFrequency=5)

    def program() -> None:
        callback.on_train_begin()
        swarm.hold()
        for batch in range(1, 21):
            weights["w"] += 1
            if batch % 5 == 0 and batch > 5:
                swarm.release()
                due = batch // 5
                wait_for(lambda due=due: swarm.round == due)  # the last one is there, the next one is held back
                swarm.hold()
            callback.on_batch_end()
            # The fifth batch's merge is round 2, which is taken at the tenth.
            assert callback.round == max(1, batch // 5)
            assert swarm.round == max(1, batch // 5)
        wait_for(lambda: syncs(swarm) == [1, 2, 3, 4, 5])
        swarm.release()
        callback.on_train_end()

    together(program)
    np.testing.assert_array_equal(weights["w"], [20.0])
    assert swarm.round == 6


def test_the_first_merge_does_not_overlap(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(2, poll=0.05)
    weights = [{"w": np.zeros(1, np.float32)}, {"w": np.full(1, 4, np.float32)}]
    calls = [make(swarm, i, weights[i]) for i in range(2)]
    together(*(calls[i].on_train_begin for i in range(2)))
    assert [value["w"].tolist() for value in weights] == [[2.0], [2.0]]
    together(*(calls[i].on_train_end for i in range(2)))


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool"])
def test_counters_go_on_and_flags_follow(make_swarm: MakeSwarm, dtype: str) -> None:
    swarm = make_swarm(2, poll=0.05)
    # The first element counts batches, or is set by the first one; the second is the other peer's affair at first.
    weights = [{"n": np.array([0, i], dtype), "w": np.zeros(1, np.float32)} for i in range(2)]
    calls = [make(swarm, i, weights[i], syncFrequency=1, nodeWeightage=1 + 2 * i) for i in range(2)]
    seen: list[list[Any]] = [[], []]

    def program(peer: int) -> None:
        calls[peer].on_train_begin()
        for _ in range(4):
            weights[peer]["n"][0] = True if dtype == "bool" else weights[peer]["n"][0] + 1
            calls[peer].on_batch_end()
            seen[peer].append(weights[peer]["n"].tolist())
        calls[peer].on_train_end()

    together(lambda: program(0), lambda: program(1))
    want = [[True, True]] * 4 if dtype == "bool" else [[1, 1], [2, 1], [3, 1], [4, 1]]
    assert seen == [want, want]
    assert weights[0]["n"].tolist() == weights[1]["n"].tolist() == want[-1]


def test_what_is_measured_is_the_merged_model(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    swarm = make_swarm(3, poll=0.05)
    weights = [{"w": begin(peer), "mine": np.full(1, 9.0)} for peer in range(3)]
    pulls: list[list[np.ndarray]] = [[], [], []]
    calls = [
        make(swarm, i, weights[i], tmp_path / str(i), syncFrequency=3, nodeWeightage=1 + i, localLayers="mine",
             fedProxMu=1.0, useAdaptiveSync=True, evaluate=lambda i=i: float(weights[i]["w"][0]))
        for i in range(3)
    ]  # fmt: skip

    def program(peer: int) -> None:
        calls[peer].on_train_begin()
        for _ in range(9):
            weights[peer]["w"] += RATE * (TARGETS[peer] - weights[peer]["w"])
            weights[peer]["mine"] += 1
            calls[peer].on_batch_end()
            pulls[peer].append(calls[peer].fedprox_gradients()["w"])
        calls[peer].on_epoch_end(0)
        calls[peer].on_train_end()

    together(*(lambda i=i: program(i) for i in range(3)))
    traces, models = simulate([True] * 3, 3, 9)
    for peer in range(3):
        losses = {event["round"]: event["loss"] for event in events(tmp_path / str(peer)) if event["event"] == "merge"}
        assert losses == {number: float(model[0]) for number, model in enumerate(models[:-1], 1)}
        sent = [(b["round"], b["loss"]) for name, path, b in swarm.log if path == "/v1/report" and name == f"sl-{peer}"]
        assert dict(pair for pair in sent if pair[0]) == losses
        # A round's loss is known before the next one is asked for, which adapts the interval by it.
        asked = [b.get("seq", 0) or -b["round"] for name, path, b in swarm.log
                 if name == f"sl-{peer}" and path in ("/v1/sync", "/v1/report")]  # fmt: skip
        for number in range(1, 4):
            assert asked.index(-number) < asked.index(number + 1)
        # The pull is towards the last merged model that has come.
        for batch, (pull, trace) in enumerate(zip(pulls[peer], traces[peer]), 1):
            np.testing.assert_array_equal(pull, trace - models[max(batch // 3, 1) - 1])
        np.testing.assert_array_equal(weights[peer]["mine"], [18.0])


def test_the_interval_follows_the_swarm(make_swarm: MakeSwarm, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []
    offered: list[int] = []
    offer = clients.Client.offer
    monkeypatch.setattr(clients.Client, "offer", lambda *args: (offered.append(batches[-1]), offer(*args)))
    swarm = make_swarm(1)
    weights = {"w": np.zeros(1)}
    callback = make(swarm, 0, weights, syncFrequency=1, useAdaptiveSync=True, evaluate=lambda: 1.0)
    callback.on_train_begin()
    for batch in range(1, 12):
        batches.append(batch)
        wait_for(lambda: committed(swarm) == 1 + len(offered))
        # What the swarm says of each merge: 1, 2, 3, … batches until the next.
        swarm.interval = swarm.round + 1
        callback.on_batch_end()
    callback.on_train_end()
    # Round 2 is asked for at the first batch and says 2, which is known, and counts, from the next merge on.
    assert offered == [1, 2, 4, 7, 11]


def test_own_reports_are_of_the_own_model(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    weights = {"w": np.zeros(1)}
    callback = make(swarm, 0, weights, syncFrequency=1)
    callback.on_train_begin()
    callback.report(4.0)
    for loss in (3.0, 2.0):
        callback.on_batch_end()
        callback.report(loss)
    callback.on_train_end()
    sent = [(body["round"], body["loss"]) for _, path, body in swarm.log if path == "/v1/report" and body["loss"]]
    # After the first batch the model is still that of round 1, trained on; after the second it is more than a merged one.
    assert sent == [(1, 4.0), (1, 3.0), (0, 2.0)]


def test_adaptive_sync_needs_evaluate() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SWARM_LOOPBACK", "true")
        with pytest.raises(errors.ParameterError, match=r"useAdaptiveSync: with overlap .* \(give evaluate too\)"):
            SwarmCallback(1, 1, weights={"w": np.ones(1)}, overlap=True, useAdaptiveSync=True)
        with pytest.raises(errors.ParameterError, match="overlap: 'yes' is not allowed"):
            SwarmCallback(1, 1, weights={"w": np.ones(1)}, overlap="yes")


def test_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWARM_LOOPBACK", "true")
    weights = {"w": np.zeros(1)}
    callback = SwarmCallback(1, 2, weights=weights, overlap=True)
    callback.on_train_begin()
    for _ in range(3):
        weights["w"] += 1
        callback.on_batch_end()
    callback.on_train_end()
    assert weights["w"] == 3


# Failures.


def begun(swarm: FakeSwarm, **kwargs: Any) -> tuple[SwarmCallback, dict[str, np.ndarray]]:
    """Give a callback and its weights while its second merge is held back."""
    weights = {"w": np.zeros(2, np.float32)}
    callback = make(swarm, 0, weights, syncFrequency=2, **kwargs)
    callback.on_train_begin()
    swarm.hold()
    for _ in range(2):
        weights["w"] += 1
        callback.on_batch_end()
    return callback, weights


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("at_end", [True, False])
def test_a_swarm_that_fails_is_told_at_the_next_merge(make_swarm: MakeSwarm, known: bool, at_end: bool) -> None:
    swarm = make_swarm(1, poll=0.02)
    refusal = RefusedError(409, "RESET", "contract c was reset", "start the program again")
    weights = {"w": np.zeros(2, np.float32)}
    callback = make(swarm, 0, weights, syncFrequency=2)
    callback.on_train_begin()
    swarm.hold()
    callback.on_batch_end()
    if known:  # before the daemon has answered
        swarm.refuse["/v1/sync"] = refusal
    callback.on_batch_end()
    callback.on_batch_end()
    callback.on_epoch_end()
    swarm.refuse["/v1/sync"] = refusal
    with pytest.raises(errors.ContractResetError, match="contract c was reset"):
        (callback.on_train_end if at_end else callback.on_batch_end)()
    with pytest.raises(errors.SwarmError, match="on_train_begin first"):
        callback.on_batch_end()
    assert mapped(swarm) == []
    assert connections_end(swarm)


@pytest.mark.parametrize("at_end", [True, False])
def test_a_daemon_that_dies_is_told_at_the_next_merge(make_swarm: MakeSwarm, at_end: bool) -> None:
    swarm = make_swarm(1)
    callback, _ = begun(swarm)
    swarm.peers[0].kill()
    callback.on_batch_end()
    with pytest.raises(errors.DaemonGoneError, match="daemon has ended"):
        (callback.on_train_end if at_end else callback.on_batch_end)()
    assert mapped(swarm) == []


@pytest.mark.parametrize("dies", ["before it is handed in", "while it travels", "with a word"])
def test_a_daemon_that_returns(
    make_swarm: MakeSwarm, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], dies: str
) -> None:
    monkeypatch.setenv("SWARM_RECONNECT", "30")
    monkeypatch.setattr(clients, "FIRST_PAUSE", 0.01)
    swarm = make_swarm(1)
    weights = {"w": np.zeros(2, np.float32)}
    callback = make(swarm, 0, weights, syncFrequency=2)
    callback.on_train_begin()
    back = threading.Timer(0.2, swarm.peers[0].back)
    for batch in range(6):
        weights["w"] += 1
        if batch == 1 and dies == "with a word":
            swarm.refuse["/v1/sync"] = RefusedError(503, "DAEMON_STOPPED", "the node stopped", "start the node again")
        if batch == (1 if dies == "before it is handed in" else 3):
            if dies == "with a word":
                answer = callback._engine._client._offered.sock
                assert select.select([answer], [], [], 30)[0]
                swarm.refuse.clear()
            swarm.peers[0].kill()
            back.start()
        callback.on_batch_end()
    callback.on_train_end()
    back.join()
    np.testing.assert_array_equal(weights["w"], [6.0, 6.0])
    assert swarm.round == 5
    assert "the swarm daemon is back" in capsys.readouterr().out


def test_infinity_meanwhile(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    callback, weights = begun(swarm)
    weights["w"][1] = np.inf
    swarm.release()
    callback.on_batch_end()
    with pytest.raises(errors.NotFiniteError, match='tensor "w" has NaN or infinite values') as caught:
        callback.on_batch_end()
    assert "not merged" in swarm.aborted["sl-0"]
    del caught
    assert mapped(swarm) == []


def test_layers_that_change_meanwhile(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    callback, weights = begun(swarm)
    weights["w"] = np.zeros(3, np.float32)
    swarm.release()
    callback.on_batch_end()
    with pytest.raises(errors.ModelChangedError, match='tensor "w"'):
        callback.on_batch_end()


def test_an_error_of_the_models_own_is_not_hidden(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    weights = {"w": np.zeros(2, np.float32)}
    broken: list[bool] = []

    def put(new: dict[str, np.ndarray]) -> None:
        if broken:
            raise ZeroDivisionError("mine")
        weights.update(new)

    callback = make(swarm, 0, None, get=lambda: weights, set=put, syncFrequency=1)
    callback.on_train_begin()
    callback.on_batch_end()
    broken.append(True)
    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        callback.on_batch_end()
    assert caught.value.__context__ is None
    assert swarm.aborted["sl-0"] == "ZeroDivisionError: mine"
    del caught
    assert mapped(swarm) == []


def test_interrupt_while_it_waits(make_swarm: MakeSwarm, monkeypatch: pytest.MonkeyPatch) -> None:
    swarm = make_swarm(1, poll=30.0)
    callback, _ = begun(swarm)
    callback.on_batch_end()
    main, waits, receive = threading.main_thread().ident, threading.Event(), clients._receive
    monkeypatch.setattr(clients, "_receive", lambda connection: (waits.set(), receive(connection))[1])

    def interrupt() -> None:
        assert waits.wait(30)
        signal.pthread_kill(main, signal.SIGINT)

    helper = threading.Thread(target=interrupt)
    helper.start()
    with pytest.raises(KeyboardInterrupt):
        callback.on_batch_end()
    helper.join()
    assert swarm.aborted["sl-0"].startswith("KeyboardInterrupt")
    assert mapped(swarm) == []


@pytest.mark.parametrize(
    ("how", "want"),
    [
        ("raise ValueError('mine')", "ValueError: mine"),
        ("os.kill(os.getpid(), signal.SIGINT)", "KeyboardInterrupt"),
        ("raise SystemExit(3)", "never called on_train_end"),
    ],
)
def test_a_program_that_ends_while_a_merge_travels(make_swarm: MakeSwarm, how: str, want: str) -> None:
    swarm = make_swarm(2, poll=30.0)
    program = f"""
import os, signal, threading
import numpy as np
from swarmlearning.arrays import SwarmCallback
weights = {{"w": np.zeros(2, np.float32)}}
callback = SwarmCallback(1, 1, weights=weights, overlap=True)
callback.on_train_begin()
callback.on_batch_end()
assert threading.active_count() == 1
print("travels", flush=True)
input()
{how}
"""
    environment = {**os.environ, "PYTHONPATH": str(SRC), "SWARM_BRIDGE_DIR": swarm.peers[0].directory}
    with subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdin=-1, stdout=-1, stderr=-1, text=True
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line == "travels\n":
                break
        _, err = child.communicate("\n", timeout=60)
    assert child.returncode != 0
    assert want in swarm.aborted["sl-0"]
    assert "Exception ignored" not in err
    assert connections_end(swarm)


def test_training_that_is_over_meanwhile(make_swarm: MakeSwarm, tmp_path: pathlib.Path) -> None:
    swarm = make_swarm(2, poll=0.05)
    weights = [{"w": np.zeros(1, np.float32)}, {"w": np.full(1, 4, np.float32)}]
    fast, slow = (make(swarm, i, weights[i], tmp_path / str(i), minPeers=1, overlap=bool(i)) for i in range(2))
    waits = threading.Event()
    steps = []
    swarm.hold()  # so that both have part in the first

    def begin_together() -> None:
        wait_for(lambda: {name for name, path, _ in list(swarm.log) if path == "/v1/sync"} == {"sl-0", "sl-1"})
        swarm.release()

    def first() -> None:
        fast.on_train_begin()
        assert waits.wait(30)
        fast.on_train_end()

    def second() -> None:
        slow.on_train_begin()
        for batch in range(100):
            weights[1]["w"] += 1
            steps.append(batch)
            slow.on_batch_end()
            if batch == 1:
                # Its merge now waits for the other peer, whose end makes it the final one.
                waits.set()
                wait_for(lambda: swarm.over)
            if slow.training_over:
                break
        slow.on_train_end()

    together(begin_together, first, second)
    assert len(steps) == 4
    np.testing.assert_array_equal(weights[0]["w"], weights[1]["w"])
    ends = [events(tmp_path / str(i))[-1] for i in range(2)]
    assert ends[0]["model_sha256"] == ends[1]["model_sha256"]
    merges = [event["round"] for event in events(tmp_path / "1") if event["event"] == "merge"]
    assert merges == [1, 2]
    # The mean of 2 and of what the slow one had when it asked; what it learnt after that is dropped, since it is over.
    assert weights[1]["w"].tolist() == [3.0]


def test_two_trainings_in_a_row(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    callback, _ = begun(swarm)
    swarm.refuse["/v1/sync"] = RefusedError(409, "RESET", "reset", "again")
    callback.on_batch_end()
    with pytest.raises(errors.SwarmError):
        callback.on_batch_end()
    swarm.refuse.clear()
    swarm.release()
    swarm.over, swarm.round = False, 0
    callback.on_train_begin()
    assert callback.round == 1
    callback.on_batch_end()
    callback.on_train_end()
    assert mapped(swarm) == []


# The arithmetic.


def bfloat16(values: Any) -> np.ndarray:
    """Round to bfloat16 by exact comparison with both neighbours; for finite values."""

    def one(value: float) -> int:
        upper = int(np.float32(value).view(np.uint32)) >> 16

        def of(bits: int) -> Fraction:
            exponent = bits >> 7 & 0xFF
            if exponent == 0xFF:
                return Fraction((-1) ** (bits >> 15)) * Fraction(2) ** 128
            mantissa = Fraction((bits & 0x7F) + (0x80 if exponent else 0), 0x80)
            return (-1) ** (bits >> 15) * mantissa * Fraction(2) ** (max(exponent, 1) - 127)

        exact = Fraction(float(np.float32(value)))
        return min((upper, upper + 1), key=lambda bits: (abs(of(bits) - exact), bits & 1))

    return np.array([one(value) for value in np.ravel(values)], np.uint16).reshape(np.shape(values))


def widen(bits: np.ndarray) -> np.ndarray:
    return (np.asarray(bits, np.uint32) << np.uint32(16)).reshape(-1).view(np.float32).reshape(np.shape(bits))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 5, 7), (1 << 9, 600)])
def test_floats_are_carried_with_one_rounding_each(dtype: str, shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(7)
    s, m, w = (random.normal(size=shape) * 10.0 ** random.integers(-3, 4, size=shape) for _ in range(3))
    if dtype != "bfloat16":
        s, m, w = (np.asarray(value, dtype) for value in (s, m, w))
        wide = np.float64 if dtype == "float64" else np.float32
        want = (m.astype(wide) + (w.astype(wide) - s.astype(wide))).astype(dtype)
    else:
        if math.prod(shape) > 100:
            s, m, w = (np.resize(value.ravel()[:97], shape) for value in (s, m, w))
        s, m, w = (np.asarray(np.asarray(value, np.float32).view(np.uint32) >> 16, np.uint16) for value in (s, m, w))
        exact = np.asarray(widen(m) + (widen(w) - widen(s)))
        want = np.resize(bfloat16(exact.ravel()[:97]), shape)
    kept = m.copy(), w.copy()
    sent = s.copy()
    carry(dtype, True, sent, m, w)
    np.testing.assert_array_equal(sent, want)
    np.testing.assert_array_equal((m, w), kept)


def test_bfloat16_is_rounded_to_even_and_keeps_what_is_no_number() -> None:
    def bits(value: int) -> np.ndarray:
        return np.array([value], np.uint16)

    for merged, now, want in [
        (0x3F80, 0x3B80, 0x3F80),  # 1 + 2^-8: a tie, to the even one
        (0x3F81, 0x3B80, 0x3F82),  # a tie, away from the odd one
        (0x3F80, 0x3B81, 0x3F81),  # above the tie
        (0x7F7F, 0x7F7F, 0x7F80),  # beyond the largest
        (0xFF80, 0x7F80, 0x7FC0),  # -inf + inf
        (0x7FFF, 0x0000, 0x7FC0),  # NaN whose bits rounding would carry over
    ]:
        sent = bits(0)
        carry("bfloat16", True, sent, bits(merged), bits(now))
        assert sent.tolist() == [want], hex(merged)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_statistics_stay_in_their_range(dtype: str) -> None:
    cases = [  # S, M, W and what becomes of them
        (2.0, 0.5, 1.0, 0.5),  # a running variance that fell by more than the merged one has
        (8.0, 1.0, 0.5, 0.5),
        (2.0, 1.0, 3.0, 2.0),  # one that grew
        (1.0, 2.0, 0.5, 1.5),  # one that fell from below the mean
        (-2.0, -0.5, -1.0, -0.5),  # the same below zero
        (-2.0, 1.0, -4.0, -1.0),  # of two signs: a running mean
        (0.0, 3.0, 0.0, 3.0),  # one that stands still, as all do in a layer that is frozen
        (0.0, 0.0, 0.0, 0.0),
    ]
    s, m, w, want = (np.array(column, np.float32) for column in zip(*cases))
    if dtype == "bfloat16":
        s, m, w, want = (bfloat16(column) for column in (s, m, w, want))
    else:
        s, m, w, want = (column.astype(dtype) for column in (s, m, w, want))
    carry(dtype, False, s, m, w)
    np.testing.assert_array_equal(s, want)
    nan = np.array([1.0], np.float32)
    carry("float32", False, nan, np.array([1.0], np.float32), np.array([np.nan], np.float32))
    assert np.isnan(nan)


def test_integers_and_flags_are_carried_by_element() -> None:
    for dtype in ("uint8", "int64", "bool"):
        sent = np.array([0, 1, 0], dtype)
        carry(dtype, True, sent, np.array([1, 0, 1], dtype), np.array([1, 1, 0], dtype))
        assert sent.tolist() == [1, 0, 1]
    scalar, empty = np.array(3), np.empty((0, 2), np.float32)
    carry("int64", True, scalar, np.array(5), np.array(3))
    assert scalar == 5
    carry("float32", True, empty, empty, empty)
