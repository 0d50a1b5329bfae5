"""Ranks that reach each other by TCP, as rank 0 has a connection with every other one.

For frameworks whose own collectives are the program's alone.
Rank 0 opens a Door. Its key, the port and two secrets, goes to the others by a way that they have already; whoever
comes with the key is let in, and is shown that it has found rank 0. What comes in has a length that was known before.
A model goes from rank 0 to each of the others in turn, which is meant for a handful of ranks.
"""

from __future__ import annotations

import hmac
import secrets
import selectors
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Union

import numpy as np

from swarmlearning._ranks import BEAT_SECONDS, EQUAL_REMEDY, LOST_REMEDY
from swarmlearning.errors import ProtocolError, RankLostError
from swarmlearning.layout import Array

# How long ranks wait for each other: to connect, for one that is late, and for the next word of rank 0, in seconds.
CONNECT_SECONDS = 60.0
LATE_SECONDS = 600.0
SILENT_SECONDS = 12 * BEAT_SECONDS

_SECRET_BYTES = 16
_PORT = struct.Struct(">H")
KEY_BYTES = _PORT.size + 2 * _SECRET_BYTES

# What a rank says first: the secret and its number.
_GREETING = struct.Struct(f">{_SECRET_BYTES}sI")
# Connections that have not shown the key and are kept open, and for how long they are; when a rank comes again.
_STRANGERS = 64
GREETING_SECONDS = 3.0
_AGAIN_SECONDS = 0.2
_REACH_REMEDY = "let the hosts of a peer's ranks reach each other by TCP"

# Before what is sent: what it is, and how many bytes.
_HEAD = struct.Struct(">cI")
_ROW, _ROWS, _WORD = b"r", b"a", b"w"


class Door:
    """Where rank 0 lets the other ranks in."""

    def __init__(self, host: str) -> None:
        """Listen on a free port: of loopback alone where that is how the others call this host."""
        self._listener = _listen(host)
        self._theirs, self._ours = secrets.token_bytes(_SECRET_BYTES), secrets.token_bytes(_SECRET_BYTES)
        self.key = _PORT.pack(self._listener.getsockname()[1]) + self._theirs + self._ours

    def __enter__(self) -> Door:
        """Do nothing: it is open."""
        return self

    def __exit__(self, *error: object) -> None:
        """Let nobody in any more."""
        self._listener.close()

    def admit(self, size: int) -> First:
        """Wait until all other ranks are there."""
        links: dict[int, _Link] = {}
        limit = time.monotonic() + CONNECT_SECONDS
        with _Strangers(self._listener) as strangers:
            try:
                while len(links) < size - 1:
                    if time.monotonic() > limit:
                        missing = [str(rank) for rank in range(1, size) if rank not in links]
                        raise RankLostError(f"not connected with rank 0: rank {', '.join(missing)}", _REACH_REMEDY)
                    for stranger, greeting in strangers.greetings(limit):
                        self._let_in(stranger, greeting, links, size)
            except BaseException:
                for link in links.values():
                    link.close()
                raise
        return First([links[rank] for rank in range(1, size)])

    def _let_in(self, stranger: socket.socket, greeting: bytes, links: dict[int, _Link], size: int) -> None:
        rank = self._rank(greeting)
        if not 0 < rank < size or rank in links:
            stranger.close()
            return
        link = links[rank] = _Link(stranger, f"rank {rank}")
        link.send(self._ours, CONNECT_SECONDS)

    def _rank(self, greeting: bytes) -> int:
        if len(greeting) != _GREETING.size:
            return -1
        secret, rank = _GREETING.unpack(greeting)
        return int(rank) if hmac.compare_digest(secret, self._theirs) else -1


class _Strangers:
    """Connections that have not shown the key: a few, and none of them for long, so that others find room."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        # What each has said, and until when it may; the oldest come first.
        self._said: dict[socket.socket, tuple[float, bytes]] = {}

    def __enter__(self) -> _Strangers:
        return self

    def __exit__(self, *error: object) -> None:
        for stranger in list(self._said):
            self._forget(stranger).close()
        self._selector.close()

    def greetings(self, limit: float) -> Iterator[tuple[socket.socket, bytes]]:
        """Wait for what comes; give who has said enough, or has ended, with what it said. The receiver closes it."""
        until = min([limit, *(until for until, _ in self._said.values())])
        for key, _ in self._selector.select(max(until - time.monotonic(), 0)):
            if key.fileobj is self._listener:
                self._take()
            elif key.fileobj in self._said:
                yield from self._hear(key.fileobj)  # type: ignore[arg-type]
        for stranger in [stranger for stranger, (until, _) in self._said.items() if until < time.monotonic()]:
            self._forget(stranger).close()

    def _take(self) -> None:
        with suppress(OSError):
            stranger, _ = self._listener.accept()
            if len(self._said) >= _STRANGERS:
                self._forget(next(iter(self._said))).close()
            stranger.setblocking(False)
            self._said[stranger] = time.monotonic() + GREETING_SECONDS, b""
            self._selector.register(stranger, selectors.EVENT_READ)

    def _hear(self, stranger: socket.socket) -> Iterator[tuple[socket.socket, bytes]]:
        until, said = self._said[stranger]
        try:
            more = stranger.recv(_GREETING.size - len(said))
        except BlockingIOError:
            return
        except OSError:
            more = b""
        self._said[stranger] = until, said + more
        if not more or len(said + more) == _GREETING.size:
            yield self._forget(stranger), said + more

    def _forget(self, stranger: socket.socket) -> socket.socket:
        del self._said[stranger]
        self._selector.unregister(stranger)
        return stranger


def enter(host: str, key: bytes, rank: int, size: int) -> Other:
    """Connect with rank 0 at this host, as another rank; again and again, since strangers may be in the way."""
    (port,) = _PORT.unpack(key[: _PORT.size])
    theirs, ours = key[_PORT.size : -_SECRET_BYTES], key[-_SECRET_BYTES:]
    limit = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            link, answer = _greet((host, port), _GREETING.pack(theirs, rank), limit)
            break
        except (OSError, RankLostError) as err:
            if time.monotonic() + _AGAIN_SECONDS > limit:
                raise RankLostError(
                    f"rank {rank} can't connect with rank 0 at {host}:{port}: {getattr(err, 'message', err)}",
                    _REACH_REMEDY,
                ) from None
        time.sleep(_AGAIN_SECONDS)
    if not hmac.compare_digest(answer, ours):
        link.close()
        raise RankLostError(f"what answers at {host}:{port} is not rank 0", "find out what listens there")
    return Other(link, rank, size)


def _greet(address: tuple[str, int], greeting: bytes, limit: float) -> tuple[_Link, bytes]:
    """Show the key, and give the answer."""
    link = _Link(socket.create_connection(address, timeout=max(limit - time.monotonic(), 0.001)), "rank 0")
    link.send(greeting, max(limit - time.monotonic(), 0.001))
    answer = bytearray(_SECRET_BYTES)
    link.receive(answer, limit - time.monotonic())
    return link, bytes(answer)


class First:
    """Rank 0's way to the others, a Group."""

    rank = 0

    def __init__(self, links: Sequence[_Link]) -> None:
        """Take the connections with rank 1, 2, ..."""
        self._links = links
        self.size = len(links) + 1

    def gather(self, row: Sequence[int]) -> list[list[int]]:
        """See Group."""
        rows = [list(row)]
        limit = time.monotonic() + LATE_SECONDS
        for link in self._links:
            numbers = np.zeros(len(row), "<i8")
            link.receive_framed(_ROW, numbers, limit - time.monotonic(), EQUAL_REMEDY)
            rows.append([int(number) for number in numbers])
        everything = np.array(rows, "<i8")
        for link in self._links:
            link.send_framed(_ROWS, everything)
        return rows

    def broadcast(self, data: Array) -> None:
        """See Group."""
        for link in self._links:
            link.check()
        for link in self._links:
            link.send_framed(_WORD, data)

    def leave(self) -> None:
        """See Group."""
        for link in self._links:
            link.close()


class Other:
    """Another rank's way to rank 0, a Group."""

    def __init__(self, link: _Link, rank: int, size: int) -> None:
        """Take the connection with rank 0."""
        self._link = link
        self.rank, self.size = rank, size

    def gather(self, row: Sequence[int]) -> list[list[int]]:
        """See Group."""
        self._link.send_framed(_ROW, np.array(row, "<i8"))
        rows = np.zeros((self.size, len(row)), "<i8")
        # Rank 0, which knows who is late, is to say so first.
        self._link.receive_framed(_ROWS, rows, LATE_SECONDS + CONNECT_SECONDS, EQUAL_REMEDY)
        return [[int(number) for number in other] for other in rows]

    def broadcast(self, data: Array) -> None:
        """See Group."""
        self._link.receive_framed(_WORD, data, SILENT_SECONDS, LOST_REMEDY)

    def leave(self) -> None:
        """See Group."""
        self._link.close()


class _Link:
    """A connection with another rank. Its errors are RankLostErrors."""

    def __init__(self, connection: socket.socket, name: str) -> None:
        self._connection = connection
        self._name = name
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def close(self) -> None:
        self._connection.close()

    def check(self) -> None:
        """Raise the error if the other rank has ended."""
        try:
            self._connection.setblocking(False)
            if self._connection.recv(1, socket.MSG_PEEK) == b"":
                self._lost("has ended or left")
        except BlockingIOError:
            return
        except OSError as err:
            self._lost(f"has ended or left: {err}")

    def send_framed(self, kind: bytes, data: Array) -> None:
        self.send(_HEAD.pack(kind, data.nbytes), LATE_SECONDS)
        self.send(_bytes(data), LATE_SECONDS)

    def receive_framed(self, kind: bytes, into: Array, seconds: float, remedy: str) -> None:
        head = bytearray(_HEAD.size)
        self.receive(head, seconds, remedy)
        if bytes(head) != _HEAD.pack(kind, into.nbytes):
            raise ProtocolError(
                f"{self._name} sent something else than was awaited",
                "start every rank of a peer with the same swarmlearning package",
            )
        self.receive(_bytes(into), seconds, remedy)

    def send(self, data: Union[bytes, memoryview], seconds: float) -> None:
        try:
            self._connection.settimeout(seconds)
            self._connection.sendall(data)
        except socket.timeout:
            self._lost(f"has taken nothing for {seconds:.0f} s")
        except OSError as err:
            self._lost(f"has ended or left: {err}")

    def receive(self, into: Union[bytearray, memoryview], seconds: float, remedy: str = LOST_REMEDY) -> None:
        view = memoryview(into)
        limit = time.monotonic() + seconds
        while view:
            try:
                self._connection.settimeout(max(limit - time.monotonic(), 0.001))
                count = self._connection.recv_into(view)
            except socket.timeout:
                self._lost(f"has said nothing for {seconds:.0f} s", remedy)
            except OSError as err:
                self._lost(f"has ended or left: {err}")
            if not count:
                self._lost("has ended or left")
            view = view[count:]

    def _lost(self, what: str, remedy: str = LOST_REMEDY) -> None:
        self.close()
        raise RankLostError(f"{self._name} {what}", remedy) from None


def _bytes(data: Array) -> memoryview:
    return data.data.cast("B")


def _listen(host: str) -> socket.socket:
    if host in {"localhost", "::1"} or host.startswith("127."):
        return socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    # Not by the host's own name: many a host takes that for an address of loopback.
    if socket.has_dualstack_ipv6():
        # Without an address of IPv6 it can't be listened to.
        with suppress(OSError):
            return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", 0))
