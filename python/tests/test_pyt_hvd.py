"""Horovod's ranks without Horovod: threads that have its functions."""

from __future__ import annotations

import sys
import threading
import types
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from helpers import construct, together
from swarmlearning import _hvd_ranks, errors
from swarmlearning.pyt import SwarmCallback


class Room:
    """Where ranks meet under a name, as in Horovod, until one has shut it down."""

    def __init__(self, size: int) -> None:
        self.size, self.lock = size, threading.Lock()
        self.given: dict[str, dict[int, Any]] = {}
        self.barriers: dict[str, threading.Barrier] = {}

    def meet(self, name: str, rank: int, value: Any) -> dict[int, Any]:
        with self.lock:
            barrier = self.barriers.setdefault(name, threading.Barrier(self.size))
            self.given.setdefault(name, {})[rank] = value
        try:
            barrier.wait(20)
            values = dict(self.given[name])
            barrier.wait(20)
        except threading.BrokenBarrierError:
            raise RuntimeError("Horovod has been shut down.\nThis was caused by an exception") from None
        return values


def module(room: Room, rank: int, initialized: bool = True) -> Any:
    def broadcast_(tensor: Any, root: int, name: str) -> None:
        tensor.copy_(room.meet(name, rank, tensor.clone())[root])

    def allgather(tensor: Any, name: str) -> Any:
        values = room.meet(name, rank, tensor)
        return torch.cat([values[rank] for rank in sorted(values)])

    made: Any = types.ModuleType("horovod.torch")
    made.is_initialized, made.rank, made.size = lambda: initialized, lambda: rank, lambda: room.size
    made.broadcast_, made.allgather = broadcast_, allgather
    made.shutdown = lambda: [barrier.abort() for barrier in room.barriers.values()]
    return made


def test_rows_and_bytes_go_under_names_of_our_own() -> None:
    room = Room(2)
    groups = [_hvd_ranks.Horovod(module(room, rank)) for rank in range(2)]
    assert [(group.rank, group.size) for group in groups] == [(0, 2), (1, 2)]
    rows = together(*(lambda group=group: group.gather([group.rank, -1, 1 << 62]) for group in groups))
    assert rows == [[[0, -1, 1 << 62], [1, -1, 1 << 62]]] * 2
    sent = [np.arange(9, dtype=np.uint8), np.zeros(9, np.uint8)]
    together(*(lambda group=group, data=data: group.broadcast(data) for group, data in zip(groups, sent)))
    assert np.array_equal(sent[0], sent[1])
    assert all(name.startswith("swarmlearning.") for name in room.given)


def test_a_rank_that_leaves_fails_the_others() -> None:
    room = Room(2)
    groups = [_hvd_ranks.Horovod(module(room, rank)) for rank in range(2)]
    together(*(lambda group=group: group.gather([1]) for group in groups))
    groups[1].leave()
    with pytest.raises(
        errors.RankLostError, match="has ended or does not answer: Horovod has been shut down. This was"
    ):
        groups[0].gather([1])
    room.barriers["swarmlearning.broadcast"] = threading.Barrier(2)
    groups[1].leave()
    with pytest.raises(errors.RankLostError, match="rank 0 has lost another rank: Horovod has been shut down"):
        groups[0].broadcast(np.zeros(1, np.uint8))


def test_ranks_are_found_where_the_program_has_them(make_swarm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Horovod counts if the program has initialised it, and with more than one rank; elastic ranks are refused."""
    model = torch.nn.Linear(1, 1)
    early = construct(make_swarm(1).peers[0].directory, lambda: SwarmCallback(syncFrequency=1, minPeers=1, model=model))
    monkeypatch.delitem(sys.modules, "horovod.torch", raising=False)
    assert _hvd_ranks.joined() is None
    for alone in (module(Room(1), 0), module(Room(2), 1, initialized=False)):
        monkeypatch.setitem(sys.modules, "horovod.torch", alone)
        assert _hvd_ranks.joined() is None
    monkeypatch.setitem(sys.modules, "horovod.torch", module(Room(2), 1))
    found = _hvd_ranks.joined()
    assert found is not None and (found.rank, found.size) == (1, 2)
    with pytest.raises(errors.ParameterError, match="before torch.distributed was initialised, or Horovod"):
        early.on_train_begin()
    monkeypatch.setenv("HOROVOD_ELASTIC", "1")
    with pytest.raises(errors.ParameterError, match="HOROVOD_ELASTIC: .* come and go"):
        SwarmCallback(syncFrequency=1, minPeers=1, model=model)
    monkeypatch.setitem(sys.modules, "horovod.keras", module(Room(2), 0))
    with pytest.raises(errors.ParameterError, match=r"horovod\.keras: its ranks can't be one peer"):
        _hvd_ranks.refuse("horovod.keras")
