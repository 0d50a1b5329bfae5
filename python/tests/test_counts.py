"""What a program tells of its training, and what it is told of it, against the fake swarm."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Callable

import numpy as np
import pytest

from fakeswarm import FakeSwarm
from helpers import construct, together
from swarmlearning._params import data_samples
from swarmlearning.arrays import SwarmCallback
from swarmlearning.errors import ParameterError

MakeSwarm = Callable[..., FakeSwarm]


def train(swarm: FakeSwarm, batches: list[Any], epochs: int = 1, **kwargs: Any) -> SwarmCallback:
    """Train alone, with a batch of so many samples each; None: the program does not say."""
    options = {"syncFrequency": 2, "minPeers": 1, "totalEpochs": 1, "weights": {"w": np.zeros(2, np.float32)}, **kwargs}
    callback = construct(swarm.peers[0].directory, lambda: SwarmCallback(**options))

    def program() -> None:
        callback.on_train_begin()
        for _ in range(epochs):
            for samples in batches:
                callback.on_batch_end(samples=samples)
            callback.on_epoch_end()
        callback.on_train_end()

    together(program)
    return callback


def told(swarm: FakeSwarm) -> list[dict[str, int]]:
    """Give it call by call; a call that is repeated tells the same."""
    names = ("batches", "samples", "data_samples")
    calls: dict[tuple[str, int], dict[str, int]] = {}
    for _, path, body in swarm.log:
        if path in ("/v1/sync", "/v1/close"):
            counts = {name: body[name] for name in names if name in body}
            assert calls.setdefault((path, body["seq"]), counts) == counts
    return list(calls.values())


@pytest.mark.parametrize("overlap", [False, True])
def test_every_merge_and_the_end_tell_what_was_trained(make_swarm: MakeSwarm, overlap: bool) -> None:
    swarm = make_swarm(1)
    callback = train(swarm, [8, 8, 4], epochs=2, overlap=overlap)
    assert callback.samples == 40
    assert told(swarm) == [
        {"batches": 0},
        {"batches": 2, "samples": 16},
        {"batches": 2, "samples": 12, "data_samples": 20},
        {"batches": 2, "samples": 12, "data_samples": 20},
        {"batches": 0, "data_samples": 20},
    ]


def test_what_is_not_known_is_not_told(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    assert train(swarm, [8, None, 8]).samples is None
    assert told(swarm) == [{"batches": 0}, {"batches": 2}, {"batches": 1, "samples": 8}]


def test_data_that_is_named_is_known_from_the_start(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    train(swarm, [None, None], trainData=(np.zeros((50, 3)), np.zeros(50)))
    assert told(swarm) == [{"batches": 0, "data_samples": 50}, {"batches": 2, "data_samples": 50},
                           {"batches": 0, "data_samples": 50}]  # fmt: skip


def test_a_training_without_a_batch_tells_that(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    train(swarm, [])
    assert told(swarm) == [{"batches": 0}, {"batches": 0}]


def weights(swarm: FakeSwarm) -> list[Any]:
    """Give the weight of every call, beginning with the open request's."""
    paths = ("/v1/session", "/v1/sync", "/v1/close")
    calls = {(path, body.get("seq")): body.get("weight") for _, path, body in swarm.log if path in paths}
    return list(calls.values())


@pytest.mark.parametrize("overlap", [False, True])
def test_weights_follow_the_samples_that_are_seen(make_swarm: MakeSwarm, overlap: bool) -> None:
    swarm = make_swarm(1)
    train(swarm, [8, 8, 8, 8, 4], epochs=2, overlap=overlap, nodeWeightage="samples")
    # Until an epoch has ended it is what it has seen, then what the longest has.
    assert weights(swarm) == [1, 1, 16, 32, 36, 36, 36, 36]


def test_weights_follow_the_data_that_is_named(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    train(swarm, [None, None, None], trainData=60000, nodeWeightage="samples")
    assert weights(swarm) == [60000] * 4


LARGE = 1 << 30  # the swarm takes no larger number


@pytest.mark.parametrize("overlap", [False, True])
def test_more_samples_than_a_weight_can_be_weigh_as_many_as_it_can(make_swarm: MakeSwarm, overlap: bool) -> None:
    """A program without epochs counts on and on, and is not stopped in the middle of its training for that."""
    swarm = make_swarm(1)
    callback = train(swarm, [LARGE // 2, LARGE // 2 - 1, 2, 7], overlap=overlap, nodeWeightage="samples")
    assert callback.samples == LARGE + 8  # what is counted is not cut
    assert weights(swarm) == [1, 1, LARGE - 1, LARGE, LARGE]


def test_more_data_than_a_weight_can_be_weighs_as_much_as_it_can(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    train(swarm, [None, None], trainData=3 * LARGE, nodeWeightage="samples")
    assert weights(swarm) == [LARGE] * 4
    assert told(swarm)[0] == {"batches": 0, "data_samples": 3 * LARGE}


def test_a_peer_without_a_batch_weighs_nothing(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    train(swarm, [], nodeWeightage="samples")
    assert weights(swarm) == [1, 1, 0]


@pytest.mark.parametrize("batches", [[None, None], [None], [8, None]])
def test_samples_that_nobody_tells_are_refused(make_swarm: MakeSwarm, batches: list[Any]) -> None:
    swarm = make_swarm(1)
    with pytest.raises(ParameterError, match="how many samples this peer has is not known") as caught:
        train(swarm, batches, nodeWeightage="samples")
    assert "trainData=" in str(caught.value)
    assert "on_batch_end(samples=n)" in str(caught.value)


def test_numbers_of_the_program_are_told_as_before(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    train(swarm, [8, 8], trainData=300, nodeWeightage=7)
    assert weights(swarm) == [7, 7, 7, None]


class Loader:
    """As torch's: its own length is in batches."""

    dataset = range(70)

    def __len__(self) -> int:
        return 3


@pytest.mark.parametrize(
    ("data", "number"),
    [(None, None), (12, 12), (Loader(), 70), ([1, 2], 2), (np.zeros((5, 9)), 5), ((np.zeros((4, 2)), np.zeros(4)), 4)],
)
def test_the_length_of_data(data: Any, number: Any) -> None:
    assert data_samples(data) == number


@pytest.mark.parametrize("data", [True, -1, 1.5, object()])
def test_data_without_a_length_is_refused(data: Any) -> None:
    with pytest.raises(ParameterError, match="trainData"):
        data_samples(data)


@pytest.mark.parametrize("samples", [-1, 1.5, "many"])
def test_a_wrong_number_of_samples_is_refused(make_swarm: MakeSwarm, samples: Any) -> None:
    with pytest.raises(ParameterError, match="samples"):
        train(make_swarm(1), [samples])


def test_warnings_are_logged_once(make_swarm: MakeSwarm, caplog: pytest.LogCaptureFixture) -> None:
    swarm = make_swarm(1)
    swarm.warnings = ["sl-9 has trained no batch"]
    train(swarm, [1, 1, 1, 1], logger=logging.getLogger("counts"))
    said = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert said.count("sl-9 has trained no batch") == 1


def test_warnings_come_while_others_are_waited_for(make_swarm: MakeSwarm, caplog: pytest.LogCaptureFixture) -> None:
    swarm = make_swarm(1, poll=0.01)
    swarm.warnings = ["minPeers is 5"]
    swarm.hold()

    def release() -> None:
        end = time.monotonic() + 30
        while "minPeers is 5" not in caplog.text:
            assert time.monotonic() < end, "nothing was said while the program waits"
            threading.Event().wait(0.002)
        swarm.release()

    together(release, lambda: train(swarm, [1], logger=logging.getLogger("counts")))
    assert caplog.text.count("minPeers is 5") == 1
