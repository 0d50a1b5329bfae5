"""Ranks of one peer, without a framework: threads that meet at barriers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Callable

import numpy as np
import pytest

from fakeswarm import FakeSwarm
from helpers import construct, together
from swarmlearning import _params, _rank_links, _rank_weights, _ranks, errors
from swarmlearning._ranks import Point, Progress, Ranks
from swarmlearning.base import Engine
from swarmlearning.errors import RankLostError, UnevenRanksError
from swarmlearning.layout import Tensor

MakeSwarm = Callable[..., FakeSwarm]
LOGGER = logging.getLogger("ranks")


class Room:
    """Where threads stand for ranks. As gloo does, a collective fails once a rank that it needs has gone."""

    def __init__(self, size: int) -> None:
        self.size, self.words = size, 0
        self.posts: dict[int, dict[int, Any]] = {}
        self.gone: set[int] = set()
        self.changed = threading.Condition()

    def exchange(self, rank: int, number: int, value: Any) -> dict[int, Any]:
        """Take part in a collective, and give what each rank has brought to it."""
        with self.changed:
            posts = self.posts.setdefault(number, {})
            posts[rank] = value
            self.changed.notify_all()
            ends = lambda: len(posts) == self.size or self.gone - set(posts)  # noqa: E731
            if not self.changed.wait_for(ends, 20) or len(posts) < self.size:
                raise RankLostError("it has ended")
            return posts

    def leave(self, rank: int) -> None:
        with self.changed:
            self.gone.add(rank)
            self.changed.notify_all()


class Member:
    def __init__(self, room: Room, rank: int) -> None:
        self.room, self.rank, self.size, self.number = room, rank, room.size, 0

    def exchange(self, value: Any) -> dict[int, Any]:
        self.number += 1
        return self.room.exchange(self.rank, self.number, value)

    def gather(self, row: Sequence[int]) -> list[list[int]]:
        rows = self.exchange(list(row))
        return [rows[rank] for rank in range(self.size)]

    def broadcast(self, data: Any) -> None:
        self.room.words += self.rank == 0
        sent = self.exchange(data.tobytes() if self.rank == 0 else None)
        if self.rank:
            np.copyto(data, np.frombuffer(sent[0], np.uint8))

    def leave(self) -> None:
        self.room.leave(self.rank)


class Weights:
    """A model of one tensor, as the engine sees it."""

    metric_name = ""

    def __init__(self, value: float, elements: int = 5, slow: float = 0) -> None:
        self.value, self.slow = np.full(elements, value, "<f4"), slow

    def snapshot(self) -> Iterator[tuple[Tensor, Any]]:
        yield Tensor("w", "float32", self.value.shape), self.value

    def load(self, arrays: Sequence[Any], merged: bool = True) -> None:
        self.value = np.array(arrays[0])

    def learned(self) -> list[bool]:
        return [True]

    def evaluate(self) -> None:
        time.sleep(self.slow)


def engine(swarm: FakeSwarm, peer: int, ranks: Ranks, model: Weights, **options: Any) -> Engine:
    params = _params.check(2, len(swarm.peers), "c", options, "NUMPY", LOGGER)
    return construct(swarm.peers[peer].directory, lambda: Engine(params, model, "numpy", LOGGER, ranks))


def peer(swarm: FakeSwarm, index: int, *batches: int, **options: Any) -> list[Callable[[], Any]]:
    """Give the programs of a peer's ranks, each with its number of batches; they give their weights and samples."""
    room = Room(len(batches))

    def program(rank: int) -> Any:
        # Ranks hold the same weights, as a framework sees to.
        model = Weights(index)
        e = engine(swarm, index, Ranks(Member(room, rank), LOGGER), model, **options)
        e.train_begin()
        for _ in range(batches[rank]):
            model.value = model.value + 1
            e.batch_end(10 + rank)
        e.epoch_end()
        e.train_end()
        return model.value.tolist(), e.samples, e.round

    return [lambda rank=rank: program(rank) for rank in range(len(batches))]  # type: ignore[misc]


def test_ranks_are_one_peer(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(2, poll=0.05)
    results = together(*peer(swarm, 0, 4, 4, 4), *peer(swarm, 1, 4, 4))
    assert all(result[0] == results[0][0] for result in results)
    assert [result[1] for result in results] == [132, 132, 132, 84, 84]
    assert all(result[2] == results[0][2] for result in results)
    opened = [entry for entry in swarm.log if entry[1] == "/v1/session"]
    assert sorted(entry[0] for entry in opened) == ["sl-0", "sl-1"], "rank 0 alone talks to the bridge"
    syncs = [entry[2] for entry in swarm.log if entry[:2] == ("sl-0", "/v1/sync") and entry[2]["seq"] == 2]
    assert syncs[0]["batches"] == 2
    assert syncs[0]["samples"] == 2 * (10 + 11 + 12)


@pytest.mark.parametrize("shares", [True, False])
def test_ranks_on_one_host_read_rank_0s_slots(
    make_swarm: MakeSwarm, monkeypatch: pytest.MonkeyPatch, shares: bool
) -> None:
    """Elsewhere, and at the end, after which the slots go, they are given the model."""
    if not shares:
        monkeypatch.setattr(_rank_links, "_sees", lambda named: False)
    given = []
    monkeypatch.setattr(Ranks, "_pieces", lambda ranks, model, own=Ranks._pieces: (given.append(1), own(ranks, model)))
    swarm = make_swarm(1)
    results = together(*peer(swarm, 0, 4, 4))
    assert results[0] == results[1]
    # Three merges and the final model, at either rank.
    assert len(given) == (2 if shares else 8)


def test_weight_is_of_all_ranks(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    together(*peer(swarm, 0, 4, 4, nodeWeightage="samples"))
    assert [entry[2]["weight"] for entry in swarm.log if entry[1] == "/v1/close"][:1] == [84]


def test_uneven_batches_are_named(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    with pytest.raises(
        UnevenRanksError, match="rank 0 ends epoch 1 after 3 batches, rank 1 merges in epoch 1 after 4 ba"
    ):
        together(*peer(swarm, 0, 3, 4))
    assert "/v1/abort" in [entry[1] for entry in swarm.log], "the swarm is told"


def test_models_that_differ_are_named() -> None:
    room = Room(2)
    meet = [
        lambda r=r: Ranks(Member(room, r), LOGGER).meet(Point.BEGIN, Progress(0, 0, 0), r)  # type: ignore[misc]
        for r in (0, 1)
    ]
    with pytest.raises(UnevenRanksError, match="rank 1 trains a model of other tensors"):
        together(*meet)


def test_parameters_that_differ_are_named() -> None:
    room = Room(2)
    agree = [
        lambda r=r: Ranks(Member(room, r), LOGGER).agree({"minPeers": 2, "syncFrequency": 8 + r})  # type: ignore[misc]
        for r in (0, 1)
    ]
    with pytest.raises(UnevenRanksError, match="syncFrequency: rank 0 has 8, rank 1 9"):
        together(*agree)


def test_texts_that_differ_are_named() -> None:
    room = Room(2)
    settings = [_params.check(2, 2, name, {}, "NUMPY", LOGGER).shared() for name in ("here", "there")]
    agree = [lambda r=r: Ranks(Member(room, r), LOGGER).agree(settings[r]) for r in (0, 1)]  # type: ignore[misc]
    with pytest.raises(UnevenRanksError, match="trainingContract: rank 0 and rank 1 differ"):
        together(*agree)


def test_weights_that_differ_are_named(make_swarm: MakeSwarm) -> None:
    """Ranks that do not average what they learn: rank 0's alone would be merged. Before the training they may differ."""
    swarm = make_swarm(1)
    room = Room(2)

    def program(rank: int) -> None:
        model, ranks = Weights(rank), Ranks(Member(room, rank), LOGGER)
        ranks.watch(lambda batches: _rank_weights.sums([("float32", model.value)], batches), "average the gradients")
        e = engine(swarm, 0, ranks, model)
        e.train_begin()
        for _ in range(2):
            model.value = model.value + rank
            e.batch_end()

    with pytest.raises(
        UnevenRanksError, match="rank 1 merges in epoch 1 after 2 batches with other weights than rank 0"
    ):
        together(lambda: program(0), lambda: program(1))


def test_overlap_is_refused() -> None:
    params = _params.check(2, 2, "c", {"overlap": True}, "NUMPY", LOGGER)
    with pytest.raises(errors.ParameterError, match="overlap: a peer of several ranks"):
        params.shared()


def test_rank_0_says_that_it_waits(make_swarm: MakeSwarm, monkeypatch: pytest.MonkeyPatch) -> None:
    """No collective of the others lasts longer than from one word to the next."""
    monkeypatch.setattr(_ranks, "BEAT_SECONDS", 0.02)
    swarm = make_swarm(2, poll=0.05)
    room = Room(2)
    models = [Weights(0), Weights(0)]
    engines = [engine(swarm, 0, Ranks(Member(room, rank), LOGGER), models[rank]) for rank in (0, 1)]
    other = construct(
        swarm.peers[1].directory,
        lambda: Engine(_params.check(2, 2, "c", {}, "NUMPY", LOGGER), Weights(4), "numpy", LOGGER),
    )

    def late() -> None:
        while room.words < 20:
            time.sleep(0.01)
        other.train_begin()

    together(engines[0].train_begin, engines[1].train_begin, late)
    assert [model.value.tolist() for model in models] == [[2.0] * 5] * 2


def test_ranks_wait_while_rank_0_measures(make_swarm: MakeSwarm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ranks, "BEAT_SECONDS", 0.02)
    swarm = make_swarm(1)
    room = Room(2)
    engines = [
        engine(swarm, 0, Ranks(Member(room, rank), LOGGER), Weights(0, slow=0.2 * (rank == 0))) for rank in (0, 1)
    ]
    together(*[e.train_begin for e in engines])
    for hook in ("epoch_end", "train_end"):
        before = room.words
        together(*[getattr(e, hook) for e in engines])
        assert room.words - before > 3, hook


def test_errors_of_rank_0_reach_all(make_swarm: MakeSwarm) -> None:
    swarm = make_swarm(1)
    room = Room(2)
    models = [Weights(0), Weights(0)]
    engines = [engine(swarm, 0, Ranks(Member(room, rank), LOGGER), models[rank]) for rank in (0, 1)]
    together(*[e.train_begin for e in engines])
    models[0].value[0] = np.nan
    told: list[Any] = [None, None]

    def program(rank: int) -> None:
        try:
            for _ in range(2):
                engines[rank].batch_end()
        except errors.SwarmError as err:
            told[rank] = err

    together(lambda: program(0), lambda: program(1))
    assert isinstance(told[0], errors.NotFiniteError)
    assert isinstance(told[1], errors.NotFiniteError)
    assert str(told[1]).startswith('rank 0: tensor "w" has NaN')


def test_a_lost_rank_ends_the_wait(make_swarm: MakeSwarm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 waits for a peer that never comes, and rank 1 is gone."""
    monkeypatch.setattr(_ranks, "BEAT_SECONDS", 0.02)
    swarm = make_swarm(2, poll=0.05)
    room = Room(2)
    lead = engine(swarm, 0, Ranks(Member(room, 0), LOGGER), Weights(0))

    def gone() -> None:
        ranks = Ranks(Member(room, 1), LOGGER)
        layout = _layout()
        ranks.meet(Point.BEGIN, Progress(0, 0, 0), layout)
        ranks.await_answer()
        ranks.everywhere(False)
        ranks.meet(Point.MERGE, Progress(0, 0, 0), layout)
        room.leave(1)

    with pytest.raises(RankLostError):
        together(lead.train_begin, gone)
    assert "RankLostError" in [entry[2]["reason"] for entry in swarm.log if entry[1] == "/v1/abort"][0]


def test_a_rank_alone_says_so(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ranks, "HINT_SECONDS", 0.01)
    room = Room(2)

    def late() -> None:
        while not caplog.messages:
            time.sleep(0.01)
        Ranks(Member(room, 0), LOGGER).meet(Point.END, Progress(31, 1, -1))

    with caplog.at_level(logging.WARNING, "ranks"):
        first = lambda: Ranks(Member(room, 1), LOGGER).meet(Point.END, Progress(31, 1, 5))  # noqa: E731
        _, samples = together(late, first)
    assert samples is None, "not known of rank 0"
    assert "rank 1 ends its training after 31 batches and waits for the other ranks" in caplog.messages[0]


@pytest.mark.parametrize("raw", [[7, 3], [1, 0], [1, -1], [2, 1 << 30]])
def test_words_that_are_none(raw: list[int]) -> None:
    class Odd:
        rank, size = 1, 2

        def gather(self, row: Sequence[int]) -> list[list[int]]:
            raise AssertionError

        def broadcast(self, data: Any) -> None:
            np.copyto(data.view("<i8"), raw)

    with pytest.raises(errors.ProtocolError, match=r"rank 0 announced word"):
        Ranks(Odd(), LOGGER).await_answer()


def _layout() -> int:
    from swarmlearning.layout import Layout

    return Layout([Tensor("w", "float32", (5,))]).fingerprint()
