"""A merged model that something on the machine has changed is not loaded, against the fake swarm."""

from __future__ import annotations

import logging
from typing import Callable

import numpy as np
import pytest

from fakeswarm import FakeSwarm
from helpers import construct
from swarmlearning.arrays import SwarmCallback
from swarmlearning.errors import DigestError

LOG = logging.getLogger("digest")
LARGE = (1 << 20) // 4 + 1


def make(swarm: FakeSwarm, values: int) -> tuple[SwarmCallback, np.ndarray]:
    weights = np.ones(values, np.float32)
    options = {"syncFrequency": 1, "minPeers": 1, "totalEpochs": 1, "weights": {"w": weights}, "logger": LOG}
    return construct(swarm.peers[0].directory, lambda: SwarmCallback(**options)), weights


@pytest.mark.parametrize(("values", "asked", "checked"), [(2, False, True), (LARGE, False, False), (LARGE, True, True)])
def test_a_changed_model(
    make_swarm: Callable[..., FakeSwarm],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    values: int,
    asked: bool,
    checked: bool,
) -> None:
    """Small models are checked, large ones on request; the log says which are not."""
    caplog.set_level(logging.DEBUG)
    if asked:
        monkeypatch.setenv("SWARM_VERIFY", "1")
    swarm = make_swarm(1, poll=0.05)
    callback, weights = make(swarm, values)
    callback.on_train_begin()
    swarm.damaging = True
    before = weights.copy()
    if checked:
        with pytest.raises(DigestError, match="does not hold the model of round 2"):
            callback.on_batch_end()
        assert (weights == before).all()
    else:
        callback.on_batch_end()
        callback.on_train_end()
    unchecked = [r for r in caplog.records if r.levelno == logging.INFO and "SWARM_VERIFY=1" in r.getMessage()]
    assert len(unchecked) == (0 if checked else 1)


def test_an_older_daemon_gives_no_digest(make_swarm: Callable[..., FakeSwarm], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a sum what is in the slot is taken."""
    monkeypatch.setattr("fakeswarm.Session.sum", lambda *_: "")
    swarm = make_swarm(1, poll=0.05)
    callback, _ = make(swarm, 2)
    callback.on_train_begin()
    callback.on_train_end()
