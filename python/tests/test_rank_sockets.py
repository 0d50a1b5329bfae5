"""Ranks that reach each other by TCP: threads stand for them."""

from __future__ import annotations

import socket
import threading
from typing import Any

import numpy as np
import pytest

from helpers import together
from swarmlearning import _rank_sockets
from swarmlearning._rank_sockets import KEY_BYTES, Door, First, Other, enter
from swarmlearning.errors import ProtocolError, RankLostError


def meet(size: int, host: str = "localhost") -> list[Any]:
    """Connect so many ranks."""
    with Door(host) as door:
        assert len(door.key) == KEY_BYTES
        others = [lambda rank=rank: enter(host, door.key, rank, size) for rank in range(size - 1, 0, -1)]
        first, *rest = together(lambda: door.admit(size), *others)
    return [first, *reversed(rest)]


def test_rows_and_bytes_reach_all_ranks() -> None:
    groups = meet(3)
    assert [(group.rank, group.size) for group in groups] == [(0, 3), (1, 3), (2, 3)]
    rows = together(*(lambda group=group: group.gather([group.rank, -1, 1 << 62]) for group in groups))
    assert rows == [[[rank, -1, 1 << 62] for rank in range(3)]] * 3
    sent = np.random.default_rng(0).integers(0, 256, 3 << 20, np.uint8)
    # As a mapped slot is: rank 0 may only read it.
    sent.setflags(write=False)
    got = [sent, np.zeros_like(sent), np.zeros_like(sent)]
    together(*(lambda group=group, data=data: group.broadcast(data) for group, data in zip(groups, got)))
    assert all(np.array_equal(data, sent) for data in got)


def test_one_rank_after_the_other_ends() -> None:
    """Whoever waits is told at once which rank is gone, and so is rank 0 when it has a word to say."""
    first, second, third = meet(3)
    third.leave()

    def waits() -> None:
        with pytest.raises(RankLostError, match="^rank 0 has ended or left"):
            second.gather([1])

    def loses() -> None:
        with pytest.raises(RankLostError, match="^rank 2 has ended or left"):
            first.gather([1])
        first.leave()

    together(loses, waits)
    first, second = meet(2)
    second.leave()
    with pytest.raises(RankLostError, match="^rank 1 has ended or left"):
        first.broadcast(np.zeros(1, np.uint8))
    first, second = meet(2)
    first.leave()
    for wait in (lambda: second.gather([1]), lambda: second.broadcast(np.zeros(1, np.uint8))):
        with pytest.raises(RankLostError, match="^rank 0 has ended or left"):
            wait()


def test_a_silent_rank_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SILENT_SECONDS", "LATE_SECONDS", "CONNECT_SECONDS"):
        monkeypatch.setattr(_rank_sockets, name, 0.05)
    with Door("localhost") as door, pytest.raises(RankLostError, match="not connected with rank 0: rank 1, 2"):
        door.admit(3)
    monkeypatch.setattr(_rank_sockets, "CONNECT_SECONDS", 20)
    first, second = meet(2)
    with pytest.raises(RankLostError, match="^rank 0 has said nothing for 0 s"):
        second.broadcast(np.zeros(1, np.uint8))
    first, second = meet(2)
    with pytest.raises(RankLostError, match="^rank 1 has said nothing"):
        first.gather([1])


def test_ranks_that_do_not_understand_each_other() -> None:
    """What comes is held to the kind and the length that are awaited; nothing is allocated by what it says."""
    first, second = meet(2)
    first.broadcast(np.zeros(1 << 10, np.uint8))
    with pytest.raises(ProtocolError, match="rank 0 sent something else"):
        second.broadcast(np.zeros(8, np.uint8))
    for said in (
        lambda link: link.send_framed(b"w", np.zeros(1, "<i8")),
        lambda link: link.send_framed(b"r", np.zeros(2)),
    ):
        first, second = meet(2)
        said(second._link)
        with pytest.raises(ProtocolError, match="rank 1 sent something else"):
            first.gather([1])


def test_strangers_stay_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has no key, says too little, nothing at all, or comes under a number that is taken is not let in."""
    with Door("localhost") as door:
        port = int.from_bytes(door.key[:2], "big")
        result: list[First] = []
        waiting = threading.Thread(target=lambda: result.append(door.admit(3)), daemon=True)
        waiting.start()

        def stranger(said: bytes, ends: bool) -> socket.socket:
            connection = socket.create_connection(("localhost", port), timeout=20)
            connection.sendall(said)
            if ends:
                connection.shutdown(socket.SHUT_WR)
            return connection

        silent = stranger(b"", ends=False)
        turned_away = [stranger(b"x" * 20, ends=False), stranger(b"x" * 3, ends=True)]
        turned_away += [stranger(door.key[2:18] + rank.to_bytes(4, "big"), ends=False) for rank in (0, 3, 1 << 31)]
        for connection in turned_away:
            assert connection.recv(1) == b""
        ranks: list[Other] = [enter("localhost", door.key, 1, 3)]
        with monkeypatch.context() as patch, pytest.raises(
            RankLostError, match="can't connect .*: rank 0 has ended or"
        ):
            patch.setattr(_rank_sockets, "CONNECT_SECONDS", 0.1)
            enter("localhost", door.key, 1, 3)
        ranks.append(enter("localhost", door.key, 2, 3))
        waiting.join(20)
        assert result[0].size == 3
        assert silent.recv(1) == b"", "nobody is kept once all ranks are there"
    monkeypatch.setattr(_rank_sockets, "CONNECT_SECONDS", 0.1)
    with pytest.raises(RankLostError, match="can't connect with rank 0"):
        enter("localhost", door.key, 1, 3)


def test_silent_strangers_leave_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest goes where there are too many, and each after a time; who was in the way comes again."""
    with Door("localhost") as door:
        port = int.from_bytes(door.key[:2], "big")
        waiting = threading.Thread(target=lambda: door.admit(2), daemon=True)
        waiting.start()
        silent = [
            socket.create_connection(("localhost", port), timeout=20) for _ in range(_rank_sockets._STRANGERS + 1)
        ]
        assert silent[0].recv(1) == b"", "the oldest"
        assert enter("localhost", door.key, 1, 2).size == 2
        waiting.join(20)
    monkeypatch.setattr(_rank_sockets, "GREETING_SECONDS", 0.01)
    with Door("localhost") as door:
        waiting = threading.Thread(target=lambda: door.admit(2), daemon=True)
        waiting.start()
        late = socket.create_connection(("localhost", int.from_bytes(door.key[:2], "big")), timeout=20)
        assert late.recv(1) == b""
        enter("localhost", door.key, 1, 2)
        waiting.join(20)


def test_a_rank_comes_again() -> None:
    """At its first try it is turned away, as strangers are in the way."""
    with Door("localhost") as door:

        def admit() -> Any:
            door._listener.accept()[0].close()
            return door.admit(2)

        _, other = together(admit, lambda: enter("localhost", door.key, 1, 2))
        assert other.rank == 1


def test_who_is_not_rank_0_is_found_out() -> None:
    with Door("localhost") as door:
        forged = door.key[:-1] + bytes([door.key[-1] ^ 1])
        waiting = threading.Thread(target=lambda: door.admit(2), daemon=True)
        waiting.start()
        with pytest.raises(RankLostError, match="is not rank 0"):
            enter("localhost", forged, 1, 2)
        waiting.join(20)


def test_a_host_of_any_name_listens_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host may take its own name for an address of loopback, where the others do not find it."""
    with Door("node-0.example") as door:
        everywhere = door._listener.getsockname()[0]
    assert everywhere in ("::", "0.0.0.0")
    with Door("127.0.0.1") as door:
        assert door._listener.getsockname()[0] == "127.0.0.1"
    made = socket.create_server

    def without_ipv6(address: Any, **options: Any) -> socket.socket:
        if options.get("family") == socket.AF_INET6:
            raise OSError("Cannot assign requested address")
        return made(address, **options)

    monkeypatch.setattr(socket, "create_server", without_ipv6)
    with Door("node-0.example") as door:
        assert door._listener.getsockname()[0] == "0.0.0.0"
