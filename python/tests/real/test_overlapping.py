"""Training that goes on while a merge travels, beside real daemons."""

from __future__ import annotations

import os
import pathlib
import signal
import threading
from typing import Any, Callable

import pytest
from test_faults import error_of, reset_when, value, wait_for

from helpers import construct, events, together
from realswarm import RealSwarm
from swarmlearning import errors
from swarmlearning.arrays import SwarmCallback


def make(swarm: RealSwarm, peer: int, contract: str, weights: dict[str, Any], metrics: Any = "", **more: Any) -> Any:
    options = {
        "syncFrequency": 2,
        "minPeers": 2,
        "trainingContract": contract,
        "totalEpochs": 1,
        "overlap": True,
        **more,
    }
    return construct(swarm.bridges[peer], lambda: SwarmCallback(weights=weights, **options), metrics)


@pytest.fixture(scope="module")
def trio(start_swarm: Callable[[int], RealSwarm]) -> Any:
    swarm = start_swarm(3)
    yield swarm
    swarm.close()


def simulate(overlap: list[bool], batches: int, move: Callable[[int, int], float]) -> tuple[list[list[float]], int]:
    """Compute in turn what three peers compute at once; every number is exact."""
    models, now, sent = [2.0], [2.0] * 3, [None, None, None]  # 0, 1 and 5 are merged first
    traces: list[list[float]] = [[], [], []]
    for batch in range(1, batches + 1):
        now = [value + move(peer, batch) for peer, value in enumerate(now)]
        if batch % 2 == 0:
            now = [models[-1] + (now[i] - sent[i]) if sent[i] is not None else now[i] for i in range(3)]
            models.append(sum(now) / 3)
            sent = [now[i] if overlap[i] else None for i in range(3)]
            now = [now[i] if overlap[i] else models[-1] for i in range(3)]
        for trace, number in zip(traces, now):
            trace.append(number)
    models.append(sum(models[-1] + (now[i] - sent[i]) if sent[i] is not None else now[i] for i in range(3)) / 3)
    for trace in traces:
        trace.append(models[-1])
    return traces, len(models)


# normclip, which clips nothing here, merges how far each peer is from the model that it says to have started from.
@pytest.mark.parametrize(
    ("overlap", "method"),
    [([True] * 3, "mean"), ([True, False, True], "mean"), ([True, True, False], "normclip(factor=1000000)")],
)
def test_three_peers_compute_what_one_after_another_would(
    trio: RealSwarm, tmp_path: pathlib.Path, overlap: list[bool], method: str
) -> None:
    def move(peer: int, batch: int) -> float:
        # Multiples of 81, so that a third of a third of a third is exact.
        return 81.0 * (1 + peer) * (1 if batch % 3 else -2)

    weights = [value(0), value(1), value(5)]
    traces: list[list[float]] = [[], [], []]
    contract = "overlap-" + "".join("yn"[not each] for each in overlap)

    def program(peer: int) -> None:
        more = {"overlap": overlap[peer], "minPeers": 3, "mergeMethod": method}
        callback = make(trio, peer, contract, weights[peer], tmp_path / str(peer), **more)
        callback.on_train_begin()
        for batch in range(1, 8):
            weights[peer]["w"] += move(peer, batch)
            callback.on_batch_end()
            traces[peer].append(float(weights[peer]["w"][1]))
        callback.on_train_end()
        traces[peer].append(float(weights[peer]["w"][1]))

    together(*(lambda i=i: program(i) for i in range(3)))
    want, rounds = simulate(overlap, 7, move)
    assert traces == want
    ends = [events(tmp_path / str(i))[-1] for i in range(3)]
    assert len({end["model_sha256"] for end in ends}) == 1
    assert ends[0]["rounds"] == rounds
    assert all(event.get("contributed", True) for i in range(3) for event in events(tmp_path / str(i)))


def test_a_round_is_merged_while_both_train(pair: RealSwarm) -> None:
    """Each peer stays in its training until the swarm has committed the round that it asked for before."""
    weights = [value(0), value(4)]
    both = threading.Barrier(2, timeout=60)

    def program(peer: int) -> None:
        callback = make(pair, peer, "meanwhile", weights[peer])
        callback.on_train_begin()
        for number in range(2, 5):
            for _ in range(2):
                weights[peer]["w"] += 1
                callback.on_batch_end()
            # No hook runs here, and still the round is made.
            wait_for(lambda number=number: pair.status("meanwhile")["committed"]["round"] == number, f"round {number}")
            assert callback.round == number - 1
            both.wait()
        callback.on_train_end()

    together(lambda: program(0), lambda: program(1))
    assert [each["w"].tolist() for each in weights] == [[8.0] * 3] * 2


def test_reset_while_a_merge_travels(pair: RealSwarm) -> None:
    def program(peer: int) -> None:
        weights = value(0)
        callback = make(pair, peer, "reset-meanwhile", weights)
        callback.on_train_begin()
        opened.set()
        if peer:
            callback.on_batch_end()
            callback.on_batch_end()
            gone.wait(60)
            callback.on_batch_end()
            callback.on_epoch_end()
        else:
            gone.wait(60)
        callback.on_train_end()

    opened, gone = threading.Event(), threading.Event()

    def reset() -> None:
        wait_for(opened.is_set, "one peer has begun")
        wait_for(
            lambda: "ready" in [session["phase"] for session in pair.status("reset-meanwhile")["sessions"]],
            "one peer is ready",
        )
        reset_when(pair, "reset-meanwhile", "reset-meanwhile")
        gone.set()

    first, second, _ = together(error_of(lambda: program(0)), error_of(lambda: program(1)), reset)
    assert isinstance(first, errors.ContractResetError)
    assert isinstance(second, errors.ContractResetError)


def test_the_daemon_is_killed_while_a_merge_travels(start_swarm: Callable[[int], RealSwarm]) -> None:
    swarm = start_swarm(2)
    pid = swarm.daemon(1)

    def program(peer: int) -> None:
        callback = make(swarm, peer, "killed", value(peer))
        callback.on_train_begin()
        callback.on_batch_end()
        # The other peer never asks for this merge.
        if peer == 0:
            callback.on_batch_end()
            callback.on_batch_end()
            asked.set()
        asked.wait(60)
        if peer == 1:
            os.kill(pid, signal.SIGKILL)
        callback.on_train_end()

    asked = threading.Event()
    # With one daemon `local up` ends them all, and says so to the programs that it can still tell.
    mine, others = together(error_of(lambda: program(1)), error_of(lambda: program(0)))
    assert isinstance(mine, errors.DaemonGoneError)
    assert isinstance(others, (errors.DaemonGoneError, errors.SessionEndedError))
