"""The bridge to the daemon beside this program: HTTP with JSON on a unix socket, weights in memory-mapped slots."""

from __future__ import annotations

import hashlib
import http.client
import json
import logging
import math
import mmap
import os
import shlex
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, Dict, Optional

from swarmlearning.errors import (
    DaemonGoneError,
    DigestError,
    ModelChangedError,
    NoBridgeError,
    ProtocolError,
    SessionEndedError,
    SessionGoneError,
    SwarmError,
    from_reason,
)
from swarmlearning.layout import Buffer, Layout

SOCKET_NAME = "bridge.sock"
API_VERSION = 1

# The daemon answers a long poll within 20 s; three missed ones mean that it hangs.
POLL_SECONDS = 90.0
# Opening waits for the swarm's network, which may be electing a leader or starting.
OPEN_SECONDS = 600.0
# Longest path that every Unix takes in a socket address.
SOCKET_PATH_BYTES = 100
MAX_REPLY_BYTES = 16 << 20
# Pauses between attempts to reach a daemon that is being restarted, in seconds.
FIRST_PAUSE, LAST_PAUSE = 0.1, 2.0
MAX_RECONNECT_SECONDS = 86400.0

_SYNC = "/v1/sync"

# What a program tells of its training that counts nothing.
NOTHING: Mapping[str, int] = {}

GONE_REMEDY = "see the log of the SL daemon on this host, then start the training again"

Json = Dict[str, Any]


@dataclass(frozen=True)
class Opened:
    """What the daemon said to an open request."""

    session: str
    peer: str
    layout_digest: str


@dataclass(frozen=True)
class Merged:
    """A committed model: where it lies and how it came about."""

    round: int
    slot: str
    interval: int
    training_over: bool
    contributed: bool
    # The swarm gave the round up: there is no new model, and the program goes on with its own weights.
    skipped: bool
    digest: str
    # Hex SHA-256 of the slot; empty for a large model unless it was asked for.
    sha256: str
    participants: tuple[str, ...]
    warnings: tuple[str, ...]


class _SilentError(DaemonGoneError):
    """The daemon is there and does not answer: it hangs, and waiting for its return is of no use."""


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(self.timeout)
        try:
            if len(os.fsencode(self._path)) <= SOCKET_PATH_BYTES:
                sock.connect(self._path)
            else:
                _connect_long(sock, self._path)
        except BaseException:
            sock.close()
            raise
        self.sock = sock


def _connect_long(sock: socket.socket, path: str) -> None:
    """Reach a socket whose path is too long for an address through its directory's descriptor."""
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        sock.connect(f"/proc/self/fd/{directory}/{os.path.basename(path)}")
    finally:
        os.close(directory)


def bridge_directory(platform: str = "PYT") -> str:
    """Give the bridge's directory, which the daemon that started this program names; platform is swarmctl's word."""
    directory = os.environ.get("SWARM_BRIDGE_DIR", "")
    if not directory:
        raise NoBridgeError(
            "SWARM_BRIDGE_DIR is not set: this program was not started by a swarm daemon",
            f"for a swarm on this machine: {_local_run(platform)}; "
            "for one of several hosts: swarmd run-sl ...; "
            f"without a swarm: SWARM_LOOPBACK=true python3 {shlex.quote(_program())}",
        )
    return directory


def _program() -> str:
    # A notebook, python -c and python -m are no file that swarmctl could start.
    name = sys.argv[0] if sys.argv else ""
    return name if name.endswith(".py") else "train.py"


def _local_run(platform: str) -> str:
    folder, name = os.path.split(_program())
    given = "" if platform == "PYT" else f" --platform {platform}"
    place = f"--model-dir {shlex.quote(folder or '.')} --model-program {shlex.quote(name)} --out out"
    return f"swarmctl local run{given} {place}"


def reconnect_seconds() -> float:
    """Give how many seconds a program waits for a daemon that is gone; the daemon sets it where programs outlive it."""
    try:
        seconds = float(os.environ.get("SWARM_RECONNECT", "") or 0)
    except ValueError:
        return 0.0
    return min(seconds, MAX_RECONNECT_SECONDS) if seconds > 0 and not math.isnan(seconds) else 0.0


class Client:
    """One program's session. Not safe for use from two threads. close() frees its connection and maps.

    In a container the program outlives the daemon. SWARM_RECONNECT then says for how many seconds a request is
    repeated, every one of which may be: the daemon that comes back takes up the session where it was.
    """

    def __init__(self, directory: str, say: Optional[Callable[[str], None]] = None) -> None:
        """Use the bridge in directory; connects with the first request. say shows a line to people; default: a log."""
        self._directory = directory
        self._reconnect_seconds = reconnect_seconds()
        self._say = say or logging.getLogger("swarmlearning").warning
        self._connection: Optional[_UnixConnection] = None
        self._offered: Optional[_UnixConnection] = None
        self._session = ""
        self._layout: Optional[Layout] = None
        self._warned: set[str] = set()
        self._local: Optional[mmap.mmap] = None
        self.local_name = ""

    def open(self, terms: Mapping[str, object], layout: Layout) -> Opened:
        """Open a session for a model of this layout; terms are the other fields of the request."""
        body = dict(terms)
        body["tensors"] = [tensor.as_json() for tensor in layout.tensors]
        reply = self._post("/v1/session", body, OPEN_SECONDS)
        version = _field(reply, "api_version", int)
        if version != API_VERSION:
            raise ProtocolError(
                f"daemon speaks version {version} of the bridge, this package version {API_VERSION}",
                "install the swarmlearning package that belongs to this swarmd",
            )
        layout.check_reply(_field(reply, "offsets", list), _field(reply, "bytes", int))
        self._session = _field(reply, "session", str)
        self._layout = layout
        if layout.nbytes:
            self.local_name = _field(reply, "local", str)
            self._local = self._map(self.local_name, mmap.ACCESS_WRITE)
        return Opened(self._session, str(reply.get("peer", "")), str(reply.get("layout_digest", "")))

    @property
    def nbytes(self) -> int:
        """Bytes of the model; 0 before a session was opened."""
        return 0 if self._layout is None else self._layout.nbytes

    def slot_path(self, name: str) -> str:
        """Give the path of a slot. The daemon, which is trusted, names it in the bridge directory or absolutely."""
        return os.path.abspath(os.path.join(self._directory, name))

    def local(self) -> Buffer:
        """Give the slot that the program writes its weights to; it must not be written during sync."""
        return b"" if self._local is None else memoryview(self._local)

    def offer(self, seq: int, weight: int, counts: Mapping[str, int] = NOTHING) -> None:
        """Hand in the weights of the local slot and return at once; a sync with the same seq then gives the model.

        Until that sync has returned the local slot must not be written. counts is what was trained since the last one.
        """
        body = {"session": self._session, "seq": seq, "weight": weight, **counts}
        # The daemon's answer waits in a connection of its own, since this one is needed for reports.
        connection = self._connect(POLL_SECONDS)
        try:
            _send(connection, _SYNC, json.dumps(body).encode())
        except (http.client.HTTPException, OSError):
            connection.close()
            # Either says what is wrong, or hands them in to a daemon that has come back.
            self._post(_SYNC, body)
            return
        except BaseException:
            connection.close()
            raise
        self._offered = connection

    def sync(
        self, seq: int, weight: int, waiting: Callable[[str], None], counts: Mapping[str, int] = NOTHING
    ) -> Merged:
        """Hand in the weights of the local slot, unless offer has; block until there is a model or none comes.

        waiting is called with the daemon's reason each time that it answers that others are still missing. counts is
        what was trained since the last one: batches, samples, data_samples.
        """
        early = self._answer_to_offer()
        if early is not None and not _field(early, "pending", bool):
            return self._merged(early)
        body = {"session": self._session, "seq": seq, "weight": weight, **counts}
        while True:
            reply = self._post(_SYNC, body)
            if not _field(reply, "pending", bool):
                return self._merged(reply)
            self._warn(reply)
            waiting(str(reply.get("waiting", "")))

    def finish(
        self,
        seq: int,
        mode: str,
        waiting: Callable[[str], None],
        newer: Callable[[Merged], None],
        counts: Mapping[str, int] = NOTHING,
    ) -> Merged:
        """Close the session and block until the final model is there. Without a mode it is closed as it was opened.

        newer is called for each model that the others commit in the meantime.
        """
        body: dict[str, object] = {"session": self._session, "seq": seq, **counts}
        if mode:
            body["mode"] = mode
        seen = 0
        while True:
            reply = self._post("/v1/close", body)
            if not _field(reply, "pending", bool):
                self._session = ""
                return self._merged(reply)
            self._warn(reply)
            if reply.get("slot") and int(reply.get("round", 0)) > seen:
                seen = int(reply["round"])
                newer(self._merged(reply))
            waiting(str(reply.get("waiting", "")))

    def report(self, fields: Mapping[str, object]) -> None:
        """Tell the swarm loss, metric and progress."""
        self._post("/v1/report", {"session": self._session, **fields})

    def abort(self, reason: str) -> None:
        """Give up the session, if one is open. Never raises: it runs while another error is on its way."""
        session, self._session = self._session, ""
        if not session:
            return
        try:
            self._post("/v1/abort", {"session": session, "reason": reason[:500]}, timeout=5.0)
        except Exception:  # the first error is the one to show.
            return

    def slot(self, merged: Merged) -> mmap.mmap:
        """Map a merged slot; the caller closes it. What is written to the map stays in this process.

        Raises DigestError if it does not hold the model that the swarm committed, where the daemon gave a sum of that.
        """
        mapped = self._map(merged.slot, mmap.ACCESS_COPY)
        check_sum(mapped, merged)
        return mapped

    def close(self) -> None:
        """Free connections and maps; the session, if still open, is left to the daemon."""
        for connection in (self._connection, self._offered):
            if connection is not None:
                connection.close()
        self._connection = self._offered = None
        if self._local is not None:
            try:
                self._local.close()
            except BufferError:
                # Somebody still holds a view; the map goes with it.
                pass
            self._local = None

    def _fresh(self, reply: Json) -> tuple[str, ...]:
        """Give the warnings in an answer that have not been said yet."""
        fresh = tuple(text for text in _strings(reply.get("warnings")) if text not in self._warned)
        self._warned.update(fresh)
        return fresh

    def _warn(self, reply: Json) -> None:
        for text in self._fresh(reply):
            self._say(text)

    def _merged(self, reply: Json) -> Merged:
        return Merged(
            round=_field(reply, "round", int),
            slot=_field(reply, "slot", str),
            interval=int(reply.get("interval", 0)),
            training_over=bool(reply.get("training_over", False)),
            contributed=bool(reply.get("contributed", True)),
            skipped=bool(reply.get("skipped", False)),
            digest=str(reply.get("digest", "")),
            sha256=str(reply.get("sha256", "")),
            participants=_strings(reply.get("participants")),
            warnings=self._fresh(reply),
        )

    def _answer_to_offer(self) -> Optional[Json]:
        """Read what the daemon said to the last offer; None if there is none, or if it must be asked again."""
        connection, self._offered = self._offered, None
        if connection is None:
            return None
        try:
            status, raw = _receive(connection)
        except (http.client.HTTPException, OSError) as err:
            if isinstance(err, TimeoutError):
                raise self._gone(_SYNC, err) from None
            return None
        finally:
            connection.close()
        try:
            return _decode(_SYNC, status, raw)
        except DaemonGoneError:
            # A daemon that stopped, and may come back.
            if not self._reconnect_seconds:
                raise
            return None

    def _connect(self, timeout: float) -> _UnixConnection:
        return _UnixConnection(os.path.join(self._directory, SOCKET_NAME), timeout)

    def _map(self, name: str, access: int) -> mmap.mmap:
        if not name:
            raise ProtocolError("daemon named no slot")
        if self._layout is None:
            raise ProtocolError("no session is open")
        path = self.slot_path(name)
        try:
            with open(path, "r+b" if access == mmap.ACCESS_WRITE else "rb") as slot:
                size = os.fstat(slot.fileno()).st_size
                if size != self._layout.nbytes:
                    raise ModelChangedError(
                        f"slot {path} has {size} bytes, the model {self._layout.nbytes}", GONE_REMEDY
                    )
                return mmap.mmap(slot.fileno(), self._layout.nbytes, access=access)
        except OSError as err:
            raise DaemonGoneError(f"open slot {path}: {err.strerror}", GONE_REMEDY) from None

    def _post(self, path: str, body: Mapping[str, object], timeout: float = POLL_SECONDS) -> Json:
        data = json.dumps(body, allow_nan=False).encode()
        try:
            return self._request(path, data, timeout)
        except DaemonGoneError as err:
            if not self._reconnect_seconds or isinstance(err, _SilentError) or path == "/v1/abort":
                raise
        return self._await_daemon(path, data, timeout)

    def _await_daemon(self, path: str, data: bytes, timeout: float) -> Json:
        """Repeat a request until a daemon answers it or the time for that is over."""
        self._say("waiting for the swarm daemon to return")
        end, pause = time.monotonic() + self._reconnect_seconds, FIRST_PAUSE
        while True:
            time.sleep(pause)
            pause = min(2 * pause, LAST_PAUSE)
            try:
                reply = self._request(path, data, timeout)
            except DaemonGoneError as err:
                if isinstance(err, _SilentError):
                    raise
                if time.monotonic() >= end:
                    raise DaemonGoneError(
                        f"the swarm daemon has ended and did not return within {self._reconnect_seconds:g} s",
                        GONE_REMEDY,
                    ) from None
                continue
            except (SessionGoneError, SessionEndedError) as err:
                raise from_reason(
                    err.reason, f"the swarm daemon returned, but this session has ended: {err.message}", err.remedy
                ) from None
            except SwarmError:
                self._say("the swarm daemon is back")
                raise
            self._say("the swarm daemon is back")
            return reply

    def _request(self, path: str, data: bytes, timeout: float) -> Json:
        fresh = self._connection is None
        try:
            return self._exchange(path, data, timeout)
        except (http.client.HTTPException, OSError) as err:
            if fresh or isinstance(err, TimeoutError):
                raise self._gone(path, err) from None
        # A kept connection may have been closed while it was idle; every request may be repeated.
        try:
            return self._exchange(path, data, timeout)
        except (http.client.HTTPException, OSError) as err:
            raise self._gone(path, err) from None

    def _exchange(self, path: str, data: bytes, timeout: float) -> Json:
        connection = self._connection
        if connection is None:
            connection = self._connection = self._connect(timeout)
        connection.timeout = timeout
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        try:
            _send(connection, path, data)
            status, raw = _receive(connection)
        except BaseException:
            # Also on KeyboardInterrupt: a half-read connection must not be used for the abort that follows.
            connection.close()
            self._connection = None
            raise
        return _decode(path, status, raw)

    def _gone(self, path: str, err: Exception) -> DaemonGoneError:
        if isinstance(err, TimeoutError):
            return _SilentError(f"the swarm daemon does not answer (POST {path})", GONE_REMEDY)
        if self._session == "":
            where = os.path.join(self._directory, SOCKET_NAME)
            return DaemonGoneError(f"no swarm daemon answers at {where}: {err}", GONE_REMEDY)
        return DaemonGoneError("the swarm daemon has ended while this program was in a session", GONE_REMEDY)


def check_sum(mapped: mmap.mmap, merged: Merged) -> None:
    """Close a slot and raise DigestError if it does not hold the merged model, where the daemon gave a sum of that."""
    if merged.sha256 and hashlib.sha256(mapped).hexdigest() != merged.sha256:
        mapped.close()
        raise DigestError(
            f"slot {merged.slot} does not hold the model of round {merged.round}: its SHA-256 is not {merged.sha256}",
            "find out what writes into the bridge directory, then start the training again",
        )


def _send(connection: _UnixConnection, path: str, data: bytes) -> None:
    connection.request("POST", path, body=data, headers={"Content-Type": "application/json"})


def _receive(connection: _UnixConnection) -> tuple[int, bytes]:
    response = connection.getresponse()
    return response.status, response.read(MAX_REPLY_BYTES + 1)


def _decode(path: str, status: int, raw: bytes) -> Json:
    if len(raw) > MAX_REPLY_BYTES:
        raise ProtocolError(f"daemon's answer to {path} is longer than {MAX_REPLY_BYTES} bytes")
    try:
        reply = json.loads(raw) if raw else {}
    except ValueError:
        reply = None
    if not isinstance(reply, dict):
        raise ProtocolError(f"daemon answered {path} with status {status} and no JSON object")
    if status < http.client.BAD_REQUEST:
        return reply
    error = reply.get("error")
    if not isinstance(error, dict):
        raise ProtocolError(f"daemon answered {path} with status {status}")
    message = str(error.get("message", "")) or f"daemon refused {path} with status {status}"
    raise from_reason(str(error.get("reason", "UNKNOWN")), message, str(error.get("remedy", "")))


def _field(reply: Json, name: str, kind: type[Any]) -> Any:
    value = reply.get(name)
    if not isinstance(value, kind):
        raise ProtocolError(f"daemon's answer has no {kind.__name__} named {name}")
    return value


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ()
    return tuple(str(item) for item in value)
