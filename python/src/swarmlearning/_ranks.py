"""A peer that trains as several processes, its ranks: rank 0 alone talks to the bridge, the others follow it.

All ranks come together at each merge, at an epoch's end and at the end of the training, and compare how far they are.
While rank 0 waits for the swarm it broadcasts a word every few seconds, so that no collective of the others times out;
then what the swarm answered, and the merged model.
"""

from __future__ import annotations

import enum
import json
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Callable, Dict, NamedTuple, NoReturn, Optional, Protocol

import numpy as np

from swarmlearning import _rank_weights
from swarmlearning.errors import ProtocolError, RankLostError, SwarmError, UnevenRanksError, from_reason
from swarmlearning.layout import Array, digest_number

# How often rank 0 says that it still waits, and when a rank that waits for the others says so, in seconds.
BEAT_SECONDS = 5.0
HINT_SECONDS = 30.0
MAX_MESSAGE_BYTES = 1 << 20
MAX_REASON = 500
# Characters of what a framework says of a lost rank, within such a reason.
MAX_ERROR = 300
# Bytes of a model that are broadcast at a time.
PIECE_BYTES = 32 << 20

EQUAL_REMEDY = "give every rank the same number of batches, as DistributedSampler does, and drop the last short one"
LOST_REMEDY = "the log of the rank that ended or left says why; every rank must call the same hooks"

Json = Dict[str, Any]


class Group(Protocol):
    """What the ranks' framework gives to reach each other. The errors of gather and broadcast are RankLostErrors."""

    rank: int
    size: int

    def gather(self, row: Sequence[int]) -> list[list[int]]:
        """Give the rows of all ranks, in their order; blocks until each has called it. All rows have one length."""

    def broadcast(self, data: Array) -> None:
        """Give every rank what data, an array of bytes, holds at rank 0; blocks until it is there."""

    def leave(self) -> None:
        """End this rank's part: calls of the others fail soon, not only when this process ends. Never raises."""


class Point(enum.IntEnum):
    """Where all ranks come together."""

    BEGIN = 0
    MERGE = 1
    EPOCH = 2
    END = 3

    def words(self, batches: int, epochs: int) -> str:
        """Say what a rank that stands here does."""
        after = f"after {batches} batch{'' if batches == 1 else 'es'}"
        if self is Point.BEGIN:
            return "begins its training"
        if self is Point.MERGE:
            return f"merges in epoch {epochs + 1} {after}"
        return f"ends epoch {epochs} {after}" if self is Point.EPOCH else f"ends its training {after}"


class Progress(NamedTuple):
    """Where a rank is: batches and epochs since the training began, samples since it met the others, -1: not known."""

    batches: int
    epochs: int
    samples: int


class _Word(enum.IntEnum):
    WAIT = 0
    ANSWER = 1
    FAILED = 2


class Ranks:
    """This process among the ranks of its peer. Not safe for use by several threads."""

    def __init__(self, group: Group, logger: logging.Logger) -> None:
        """Take the group that this package alone uses."""
        self._group = group
        self._logger = logger
        self._owes = False  # The others wait for rank 0's answer.
        self._beat: Optional[_Beat] = None
        self._sums: Callable[[int], Array] = lambda batches: np.zeros(_rank_weights.SUMS)
        self._watch_remedy = ""
        self._compared = 0  # batches when the weights were compared last

    @property
    def leads(self) -> bool:
        """Whether this is rank 0, which talks to the bridge."""
        return self._group.rank == 0

    def quiet(self, logger: logging.Logger) -> logging.Logger:
        """Give the logger of a rank that follows: rank 0 says what concerns all, so errors alone are shown."""
        own = logger.getChild(f"rank{self._group.rank}")
        own.setLevel(logging.ERROR)
        return own

    def agree(self, settings: Mapping[str, object]) -> None:
        """Hold the settings of all ranks to those of rank 0; what differs is named in the error."""
        rows = self._group.gather([_number(value) for value in settings.values()])
        for rank, row in enumerate(rows):
            for name, here, there, own in zip(settings, rows[0], row, settings.values()):
                if here != there:
                    told = f" has {here}, rank {rank} {there}" if isinstance(own, int) else f" and rank {rank} differ"
                    raise UnevenRanksError(f"{name}: rank 0{told}", "give every rank of a peer the same")

    def everywhere(self, holds: bool) -> bool:
        """Report whether something holds at every rank."""
        return all(row[0] for row in self._group.gather([int(holds)]))

    def watch(self, sums: Callable[[int], Array], remedy: str) -> None:
        """Compare all ranks' weights whenever rank 0's, which alone are merged, are handed in.

        sums gives those of _rank_weights, after so many batches.
        """
        self._sums, self._watch_remedy = sums, remedy

    def meet(self, point: Point, progress: Progress, layout: int = 0) -> Optional[int]:
        """Wait for all ranks, which must be at the same point; give the others' samples, None where not all are known.

        layout is a digest of the model's tensors. Rank 0 then owes the others an answer.
        """
        doing = f"rank {self._group.rank} {point.words(progress.batches, progress.epochs)}"
        row = [point, progress.batches, progress.epochs, progress.samples, layout, *self._weights(point, progress)]
        with hinting(self._logger, f"{doing} and waits for the other ranks: {EQUAL_REMEDY}"):
            try:
                rows = self._group.gather(row)
            except RankLostError as err:
                raise RankLostError(f"{doing}, and another rank does not: {err.message}", LOST_REMEDY) from None
        _check_even(rows)
        apart = _rank_weights.differs([other[5:] for other in rows])
        if apart:
            raise UnevenRanksError(
                f"rank {apart} {point.words(progress.batches, progress.epochs)} with other weights than rank 0, "
                "and rank 0's alone would be merged",
                self._watch_remedy,
            )
        self._owe()
        others = [row[3] for rank, row in enumerate(rows) if rank != self._group.rank]
        return None if min(others) < 0 else sum(others)

    def _weights(self, point: Point, progress: Progress) -> list[int]:
        if point is Point.BEGIN:
            self._compared = 0
        # Before any training they may differ: the first merge is what makes them the same.
        if not progress.batches or point not in (Point.MERGE, Point.END):
            return [0] * _rank_weights.SUMS
        since, self._compared = progress.batches - self._compared, progress.batches
        bits: list[int] = self._sums(since).view(np.int64).tolist()
        return bits

    def check(self) -> None:
        """Raise RankLostError where rank 0, which waits for the swarm, has seen that another rank is gone."""
        if self._beat is not None:
            self._beat.check()

    def answer(self, message: Mapping[str, object], model: Optional[memoryview] = None) -> None:
        """Say, as rank 0, what the swarm answered, and give the model's bytes."""
        self._stop_waiting()
        self._send(_Word.ANSWER, dict(message, model=0 if model is None else model.nbytes))
        if model is not None:
            self._pieces(model)

    def give_up(self, reason: str, message: str, remedy: str = "") -> None:
        """End this rank's part after an error, which ranks that wait for an answer are told. Never raises."""
        if self._owes:
            with suppress(SwarmError):
                self._stop_waiting()
                text = f"rank 0: {message[:MAX_REASON]}"
                self._send(_Word.FAILED, {"reason": reason, "message": text, "remedy": remedy[:MAX_REASON]})
        self._group.leave()

    def await_answer(self, into: Callable[[], Optional[memoryview]] = lambda: None) -> Json:
        """Wait, as another rank, for what rank 0 says; into gives where the model's bytes go. Raises what it raised."""
        while True:
            kind, message = self._receive()
            if kind is _Word.FAILED:
                raise from_reason(
                    str(message.get("reason")), str(message.get("message")), str(message.get("remedy", ""))
                )
            if kind is _Word.ANSWER:
                break
        size = int(message["model"])
        if size:
            model = into()
            if model is None or model.nbytes != size:
                _misunderstood(f"a model of {size} bytes")
            self._pieces(model)
        return message

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Hold the other ranks, which are where this one is, while rank 0 measures the model."""
        if not self.leads:
            self.await_answer()
            yield
            return
        self._owe()
        yield
        self.answer({})

    def _owe(self) -> None:
        """Note that the others wait for rank 0 now, and tell them again and again that they shall."""
        if self.leads and not self._owes:
            self._owes, self._beat = True, _Beat(self._group)

    def _stop_waiting(self) -> None:
        beat, self._beat, self._owes = self._beat, None, False
        if beat is not None:
            beat.stop()

    def _send(self, kind: _Word, message: Mapping[str, object]) -> None:
        data = json.dumps(message).encode()
        self._group.broadcast(np.frombuffer(_header(kind, len(data)), np.uint8).copy())
        self._group.broadcast(np.frombuffer(data, np.uint8).copy())

    def _receive(self) -> tuple[_Word, Json]:
        raw = np.zeros(_HEADER.itemsize * 2, np.uint8)
        self._group.broadcast(raw)
        kind, size = (int(number) for number in raw.view(_HEADER))
        if kind == _Word.WAIT:
            return _Word.WAIT, {}
        if kind not in (_Word.ANSWER, _Word.FAILED) or not 0 < size <= MAX_MESSAGE_BYTES:
            _misunderstood(f"word {kind} of {size} bytes")
        data = np.zeros(size, np.uint8)
        self._group.broadcast(data)
        return _Word(kind), json.loads(data.tobytes())

    def _pieces(self, model: memoryview) -> None:
        data = np.frombuffer(model, np.uint8)
        for start in range(0, data.size, PIECE_BYTES):
            self._group.broadcast(data[start : start + PIECE_BYTES])


@contextmanager
def hinting(logger: logging.Logger, hint: str) -> Iterator[None]:
    """Log the hint if the block lasts long."""
    timer = threading.Timer(HINT_SECONDS, logger.warning, (hint,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class _Beat:
    """Says every few seconds that rank 0 still waits, until it is stopped."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._stopped = threading.Event()
        self._lost: Optional[RankLostError] = None
        self._thread = threading.Thread(target=self._run, name="swarmlearning-ranks", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stopped.wait(BEAT_SECONDS):
                self._group.broadcast(np.frombuffer(_header(_Word.WAIT, 0), np.uint8).copy())
        except RankLostError as err:
            self._lost = err

    def check(self) -> None:
        if self._lost is not None:
            raise self._lost

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
        self.check()


_HEADER = np.dtype("<i8")


def _number(value: object) -> int:
    """Give a number that fits a row for a setting: its own, or a digest of its text."""
    return value if isinstance(value, int) else digest_number(repr(value).encode())


def _header(kind: _Word, size: int) -> bytes:
    return np.array([kind, size], _HEADER).tobytes()


def _check_even(rows: Sequence[Sequence[int]]) -> None:
    """Refuse ranks that are not at one point of the training."""
    for rank, row in enumerate(rows):
        if row[:3] != rows[0][:3]:
            first, other = (Point(r[0]).words(r[1], r[2]) for r in (rows[0], row))
            raise UnevenRanksError(f"rank 0 {first}, rank {rank} {other}", EQUAL_REMEDY)
        if row[4] != rows[0][4]:
            raise UnevenRanksError(
                f"rank {rank} trains a model of other tensors than rank 0", "make the same model on every rank"
            )


def _misunderstood(what: str) -> NoReturn:
    raise ProtocolError(f"rank 0 announced {what}", "start every rank of a peer with the same swarmlearning package")
