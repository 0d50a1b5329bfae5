"""Rounds that the swarm gives up: the program goes on training with its own weights, against the fake swarm."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Callable

import numpy as np
import pytest

from fakeswarm import FakeSwarm
from helpers import construct, together
from swarmlearning.arrays import SwarmCallback

MakeSwarm = Callable[..., FakeSwarm]
LOG = logging.getLogger("skip")


def make(swarm: FakeSwarm, weights: Any, **kwargs: Any) -> SwarmCallback:
    options = {"syncFrequency": 1, "minPeers": 1, "totalEpochs": 1, "weights": weights, "logger": LOG, **kwargs}
    return construct(swarm.peers[0].directory, lambda: SwarmCallback(**options))


def skip(swarm: FakeSwarm, times: int) -> None:
    """Skip so many rounds in a row, each when the program has offered its weights, and let the next one be merged."""
    for time_ in range(times):
        end = time.monotonic() + 30
        while not offered_and_skipped(swarm):
            assert time.monotonic() < end, f"the program does not offer anew after {time_} skips"
            threading.Event().wait(0.002)
    swarm.release()


def offered_and_skipped(swarm: FakeSwarm) -> bool:
    """Skip what is offered while no merge can come between: one that is not held ends within the same lock."""
    with swarm.changed:
        offered = any(session.ready and not session.closed for session in swarm.sessions())
        if offered:
            swarm.skip()
        return offered


def said(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == level and "skipped" in r.getMessage()]


@pytest.mark.parametrize("first", [True, False])
def test_the_program_goes_on_with_its_own_weights(
    make_swarm: MakeSwarm, caplog: pytest.LogCaptureFixture, first: bool
) -> None:
    """Skip the sync of the beginning, or one in the middle: nothing is loaded, what was learnt stays."""
    caplog.set_level(logging.DEBUG)
    swarm = make_swarm(1, poll=0.05)
    weights = {"w": np.zeros(2, np.float32)}
    callback = make(swarm, weights)
    seen = []

    def program() -> None:
        if first:
            swarm.hold()
        callback.on_train_begin()
        if not first:
            swarm.hold()
        for batch in range(4):
            weights["w"] += 1
            callback.on_batch_end(batch)
            seen.append((float(weights["w"][0]), callback.round))
        callback.on_train_end()

    together(program, lambda: skip(swarm, 2))
    # The fake swarm of one merges to what it was given, so only the rounds tell.
    rounds = [0, 1, 2, 3] if first else [1, 1, 2, 3]
    assert seen == [(float(k + 1), round_) for k, round_ in enumerate(rounds)]
    assert len(said(caplog, logging.WARNING)) == 1
    assert len(said(caplog, logging.DEBUG)) == 1
    numbers = [body["seq"] for _, path, body in swarm.log if path == "/v1/sync"]
    assert sorted(set(numbers)) == [1, 2, 3, 4, 5]


def test_what_was_learnt_is_not_overwritten(make_swarm: MakeSwarm) -> None:
    """Two peers whose round is skipped keep different weights, and the next merge has all that they learnt."""
    swarm = make_swarm(2, poll=0.05)
    weights = [{"w": np.zeros(2, np.float32)} for _ in range(2)]
    ready = threading.Barrier(2, action=swarm.hold)
    kept: list[Any] = [None, None]

    def program(peer: int) -> None:
        options = {"syncFrequency": 1, "minPeers": 2, "weights": weights[peer]}
        callback = construct(swarm.peers[peer].directory, lambda: SwarmCallback(**options))
        callback.on_train_begin()
        ready.wait(30)
        weights[peer]["w"] += 1 + peer
        callback.on_batch_end(0)
        kept[peer] = weights[peer]["w"].copy()
        weights[peer]["w"] += 10 * (1 + peer)
        callback.on_batch_end(1)
        callback.on_train_end()

    def skip_both() -> None:
        end = time.monotonic() + 30
        while not (
            swarm.held and len(swarm.sessions()) == 2 and all(s.ready and not s.closed for s in swarm.sessions())
        ):
            assert time.monotonic() < end
            threading.Event().wait(0.002)
        skip(swarm, 1)

    together(lambda: program(0), lambda: program(1), skip_both)
    assert [k[0] for k in kept] == [1, 2]
    for w in weights:
        np.testing.assert_array_equal(w["w"], np.full(2, (11 + 22) / 2, np.float32))


def test_with_overlap(make_swarm: MakeSwarm) -> None:
    """What was handed in for a skipped round is handed in again, with what was learnt since."""
    swarm = make_swarm(1, poll=0.05)
    weights = {"w": np.zeros(1, np.float32)}
    callback = make(swarm, weights, overlap=True)
    seen = []

    def program() -> None:
        callback.on_train_begin()
        swarm.hold()
        for batch in range(5):
            weights["w"] += 1
            callback.on_batch_end(batch)
            seen.append((float(weights["w"][0]), callback.round))
        callback.on_train_end()

    together(program, lambda: skip(swarm, 2))
    assert [value for value, _ in seen] == [1, 2, 3, 4, 5]
    assert seen[2][1] == 1
    assert weights["w"][0] == 5


def test_an_adaptive_interval_stays(make_swarm: MakeSwarm) -> None:
    """The loss that the swarm keeps is the last merged model's, so a skip reports none; the interval is as before."""
    swarm = make_swarm(1, poll=0.05, interval=2)
    weights = {"w": np.zeros(1, np.float32)}
    callback = make(swarm, weights, useAdaptiveSync=True, evaluate=lambda: float(weights["w"][0]))

    def program() -> None:
        callback.on_train_begin()
        swarm.hold()
        for batch in range(4):
            weights["w"] += 1
            callback.on_batch_end(batch)
        callback.on_train_end()

    together(program, lambda: skip(swarm, 1))
    session = swarm.peers[0].session
    assert session is not None
    losses = [(report["round"], report["loss"]) for report in session.reports if report["loss"] is not None]
    assert losses == [(1, 0.0), (2, 4.0)]
