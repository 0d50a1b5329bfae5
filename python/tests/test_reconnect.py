"""What a program does while its daemon is away, against the fake swarm."""

from __future__ import annotations

import threading
from typing import Any, Callable

import numpy as np
import pytest

from fakeswarm import FakeSwarm
from helpers import construct, together
from swarmlearning import client as clients
from swarmlearning import errors
from swarmlearning.arrays import SwarmCallback
from swarmlearning.client import Client, Merged
from swarmlearning.layout import Layout, Tensor

MakeSwarm = Callable[..., FakeSwarm]
TERMS = {"min_peers": 1, "sync_frequency": 1, "weight": 1, "contract": "c"}


@pytest.fixture(autouse=True)
def long_reconnect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWARM_RECONNECT", "30")
    monkeypatch.setattr(clients, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(clients, "LAST_PAUSE", 0.05)


def opened(swarm: FakeSwarm, peer: int = 0, **terms: Any) -> tuple[Client, list[str]]:
    said: list[str] = []
    client = Client(swarm.peers[peer].directory, said.append)
    client.open({**TERMS, **terms}, Layout([Tensor("w", "float64", (2,))]))
    return client, said


def write(client: Client, value: float) -> None:
    np.frombuffer(client.local(), np.float64)[:] = value


def read(client: Client, merged: Merged) -> list[float]:
    mapped = client.slot(merged)
    values = np.frombuffer(mapped[:], np.float64).tolist()
    mapped.close()
    return values


def away(swarm: FakeSwarm, said: list[str], peer: int = 0) -> None:
    """Let a daemon return when its program has said that it waits for it."""
    while not said:
        threading.Event().wait(0.01)
    swarm.peers[peer].back()


BOTH = ["waiting for the swarm daemon to return", "the swarm daemon is back"]


@pytest.mark.parametrize("request_", ["sync", "report", "close"])
def test_a_request_is_repeated(make_swarm: MakeSwarm, request_: str) -> None:
    swarm = make_swarm(1)
    client, said = opened(swarm)
    write(client, 1.0)
    client.sync(1, 1, lambda _: None)
    write(client, 2.0)
    swarm.peers[0].kill()
    helper = threading.Thread(target=away, args=(swarm, said))
    helper.start()
    if request_ == "sync":
        merged = client.sync(2, 1, lambda _: None)
        assert merged.round == 2
        assert read(client, merged) == [2.0, 2.0]
    elif request_ == "report":
        client.report({"round": 1, "loss": 0.5})
        assert swarm.peers[0].session.reports[-1]["loss"] == 0.5  # type: ignore[union-attr]
    else:
        final = client.finish(1, "snapshot", lambda _: None, lambda _: None)
        assert final.training_over
        assert read(client, final) == [2.0, 2.0]
    helper.join()
    assert said == BOTH
    client.close()


def test_a_daemon_dies_while_a_sync_waits(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(2, poll=5.0)
    client, said = opened(swarm, min_peers=2)
    other, _ = opened(swarm, 1, min_peers=2)
    write(client, 1.0)
    write(other, 3.0)

    def second() -> Any:
        while not any(path == "/v1/sync" for _, path, _ in swarm.log):
            threading.Event().wait(0.01)
        swarm.peers[0].kill()
        merged = other.sync(1, 1, lambda _: None)  # committed while the daemon is away
        away(swarm, said)
        return merged

    merged, theirs = together(lambda: client.sync(1, 1, lambda _: None), second)
    assert merged.digest == theirs.digest
    assert read(client, merged) == [2.0, 2.0]
    assert said == BOTH
    client.close()
    other.close()


def test_the_first_request_waits_too(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    swarm.peers[0].kill()
    said: list[str] = []
    client = Client(swarm.peers[0].directory, said.append)
    helper = threading.Thread(target=away, args=(swarm, said))
    helper.start()
    client.open(TERMS, Layout([Tensor("w", "float64", (2,))]))
    helper.join()
    assert said == BOTH
    client.close()


def test_a_daemon_that_does_not_return(make_swarm: MakeSwarm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWARM_RECONNECT", "0.2")
    swarm = make_swarm(1)
    client, said = opened(swarm)
    swarm.peers[0].kill()
    with pytest.raises(errors.DaemonGoneError, match=r"did not return within 0.2 s"):
        client.sync(1, 1, lambda _: None)
    assert said == BOTH[:1]
    client.close()


def test_a_daemon_that_does_not_know_the_session(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    client, said = opened(swarm)
    swarm.peers[0].kill()
    swarm.peers[0].session = None
    helper = threading.Thread(target=away, args=(swarm, said))
    helper.start()
    with pytest.raises(errors.SessionGoneError, match="returned, but this session has ended"):
        client.sync(1, 1, lambda _: None)
    helper.join()
    client.close()


@pytest.mark.parametrize("value", ["", "0", "-1", "nan", "soon"])
def test_no_reconnect(make_swarm: MakeSwarm, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("SWARM_RECONNECT", value)
    swarm = make_swarm(1)
    client, said = opened(swarm)
    swarm.peers[0].kill()
    with pytest.raises(errors.DaemonGoneError, match="daemon has ended"):
        client.sync(1, 1, lambda _: None)
    assert said == []
    client.close()


def test_giving_up_does_not_wait(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    client, said = opened(swarm)
    swarm.peers[0].kill()
    client.abort("done")
    assert said == []
    client.close()


def test_the_callback_says_it(make_swarm: MakeSwarm, capsys: pytest.CaptureFixture[str]) -> None:
    swarm = make_swarm(1)
    weights = {"w": np.ones(2)}
    callback = construct(swarm.peers[0].directory, lambda: SwarmCallback(1, 1, weights=weights))
    callback.on_train_begin()
    swarm.peers[0].kill()
    timer = threading.Timer(0.2, swarm.peers[0].back)
    timer.start()
    weights["w"] += 1
    callback.on_batch_end()
    callback.on_train_end()
    timer.join()
    np.testing.assert_array_equal(weights["w"], [2.0, 2.0])
    printed = [line.split(" : ")[-1] for line in capsys.readouterr().out.splitlines()]
    assert [line for line in printed if "daemon" in line] == BOTH
