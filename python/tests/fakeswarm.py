"""A working small swarm: the bridge's contract for N programs in one process, with mean merging.

Each peer has a directory with bridge.sock and slots. A round is made when all sessions that are not closed have synced
and at least min_peers contribute. When min_peers sessions have closed there is a final round.
"""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import socketserver
import threading
import time
from typing import Any

import numpy as np

DTYPES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "uint8": 1, "int8": 1, "int16": 2, "uint16": 2,
          "int32": 4, "uint32": 4, "int64": 8, "uint64": 8, "bool": 1}  # fmt: skip


class RefusedError(Exception):
    def __init__(self, status: int, reason: str, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.status, self.body = status, {"error": {"reason": reason, "message": message, "remedy": remedy}}


class Session:
    def __init__(self, peer: Peer, body: dict[str, Any]) -> None:
        self.peer, self.body, self.id = peer, body, os.urandom(16).hex()
        self.offsets, end = [], 0
        for tensor in body["tensors"]:
            size = DTYPES[tensor["dtype"]]
            end = -(-end // size) * size
            self.offsets.append(end)
            end += int(np.prod(tensor["shape"], dtype=np.int64)) * size
        self.bytes = end
        for name in ("local", "merged-0", "merged-1"):
            with open(os.path.join(peer.directory, name), "wb") as slot:
                slot.truncate(end)
        self.seq, self.weight, self.ready, self.closed = 0, 1, False, False
        self.base, self.replies, self.reports, self.contributed = 0, {}, [], False

    def values(self) -> list[np.ndarray]:
        with open(os.path.join(self.peer.directory, "local"), "rb") as slot:
            data = slot.read()
        values = []
        for tensor, offset in zip(self.body["tensors"], self.offsets):
            count = int(np.prod(tensor["shape"], dtype=np.int64))
            kind = "uint16" if tensor["dtype"] == "bfloat16" else tensor["dtype"]
            raw = np.frombuffer(data[offset : offset + count * DTYPES[tensor["dtype"]]], dtype=kind)
            if tensor["dtype"] == "bfloat16":
                raw = (raw.astype(np.uint32) << 16).view(np.float32)
            values.append(raw.astype(np.float64))
        return values

    def sum(self, slot: str, damage: bool) -> str:
        """Give the slot's SHA-256, if the daemon would, and damage it then."""
        with open(os.path.join(self.peer.directory, slot), "r+b") as file:
            data = file.read()
            if damage:
                file.seek(0)
                file.write(bytes([data[0] ^ 1]))
        return hashlib.sha256(data).hexdigest() if len(data) <= 1 << 20 or self.body.get("verify") else ""

    def install(self, model: list[np.ndarray], slot: str) -> None:
        with open(os.path.join(self.peer.directory, slot), "r+b") as out:
            for tensor, offset, value in zip(self.body["tensors"], self.offsets, model):
                out.seek(offset)
                if tensor["dtype"] == "bfloat16":
                    out.write((value.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes())
                    continue
                kind = np.dtype(tensor["dtype"])
                exact = np.rint(value) if kind.kind in "iu" else value
                out.write((exact >= 0.5 if kind.kind == "b" else exact).astype(kind).tobytes())


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def handle(self) -> None:
        peer = self.server.peer
        peer.connections.add(self)
        try:
            super().handle()
        except ConnectionError:
            pass  # the program went without reading its answer
        finally:
            peer.connections.discard(self)

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        peer = self.server.peer
        if peer.down:
            self.close_connection = True
            return
        peer.swarm.log.append((peer.name, self.path, json.loads(raw)))
        try:
            status, body = 200, peer.swarm.handle(peer, self.path, json.loads(raw))
        except RefusedError as err:
            status, body = err.status, err.body
        if body is None:  # the daemon died while it worked
            self.close_connection = True
            return
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        if self.server.peer.swarm.drop_connections:
            self.close_connection = True
        self.end_headers()
        self.wfile.write(data)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *args: Any) -> None:
        pass


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    peer: Peer


class Peer:
    def __init__(self, swarm: FakeSwarm, name: str, directory: str) -> None:
        self.swarm, self.name, self.directory = swarm, name, directory
        os.makedirs(directory, exist_ok=True)
        self.session: Session | None = None
        self.connections: set[Handler] = set()
        self.start()

    def start(self) -> None:
        """Serve; again after stop, as a daemon does that takes up its session."""
        self.down = False
        self.server = Server(os.path.join(self.directory, "bridge.sock"), Handler)
        self.server.peer = self
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def kill(self) -> None:
        """Die as by SIGKILL: what waits gets no answer, connections end, the socket and the slots stay."""
        with self.swarm.changed:
            self.down = True
            self.swarm.changed.notify_all()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def back(self) -> None:
        os.unlink(os.path.join(self.directory, "bridge.sock"))
        self.start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
        try:
            os.unlink(os.path.join(self.directory, "bridge.sock"))
        except FileNotFoundError:
            pass


class FakeSwarm:
    """Peers sl-0 … under directory; poll is the longest wait of a long poll in seconds."""

    def __init__(self, directory: str, peers: int, poll: float = 0.2, interval: int = 0) -> None:
        self.poll, self.interval, self.drop_connections, self.dead = poll, interval, False, False
        self.held = False
        self.log: list[tuple[str, str, dict[str, Any]]] = []
        self.changed = threading.Condition()
        self.damaging = False
        self.warnings: list[str] = []
        self.round, self.model, self.over, self.slot = 0, [], False, "merged-1"
        self.participants: list[str] = []
        self.aborted: dict[str, str] = {}
        self.refuse: dict[str, RefusedError] = {}
        self.peers = [Peer(self, f"sl-{i}", os.path.join(directory, str(i))) for i in range(peers)]

    def close(self) -> None:
        with self.changed:
            self.dead = True
            self.changed.notify_all()
        for peer in self.peers:
            peer.stop()

    def __enter__(self) -> FakeSwarm:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def sessions(self) -> list[Session]:
        return [peer.session for peer in self.peers if peer.session]

    def hold(self) -> None:
        """Make no merge until release, as if the exchange took long."""
        with self.changed:
            self.held = True

    def release(self) -> None:
        with self.changed:
            self.held = False
            self._merge()

    def skip(self) -> None:
        """Give the round up: who waits for it goes on without a model. Call it while merges are held."""
        with self.changed:
            for session in self.sessions():
                if session.ready and not session.closed:
                    model = {"round": session.base, "contributed": False, "participants": [], "skipped": True}
                    session.replies[session.seq] = {**self._reply(session, False), **model}
                    session.ready = False
            self.changed.notify_all()

    def handle(self, peer: Peer, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        with self.changed:
            if path in self.refuse:
                raise self.refuse[path]
            if path == "/v1/session":
                return self._open(peer, body)
            session = peer.session
            if session is None or session.id != body["session"]:
                raise RefusedError(404, "NO_SESSION", "no such session")
            if path == "/v1/sync":
                return self._sync(session, body)
            if path == "/v1/close":
                return self._close(session, body)
            if path == "/v1/report":
                session.reports.append(body)
            if path == "/v1/abort":
                self.aborted[peer.name] = body["reason"]
                peer.session = None
                self._merge()
            return {}

    def _open(self, peer: Peer, body: dict[str, Any]) -> dict[str, Any]:
        if peer.session is not None and not peer.session.closed:
            raise RefusedError(409, "SESSION_OPEN", "a session is open", "end the other program")
        session = peer.session = Session(peer, body)
        return {"session": session.id, "local": "local", "bytes": session.bytes, "layout_digest": "00",
                "offsets": session.offsets, "peer": peer.name, "api_version": 1}  # fmt: skip

    def _sync(self, session: Session, body: dict[str, Any]) -> dict[str, Any] | None:
        if body["seq"] not in session.replies and not session.ready:
            session.seq, session.weight, session.ready = body["seq"], body["weight"], True
            self._merge()
        return self._wait(session, lambda: session.replies.get(body["seq"]))

    def _close(self, session: Session, body: dict[str, Any]) -> dict[str, Any] | None:
        if not session.closed:
            session.closed = session.ready = True
            if body.get("mode") == "inactive":
                session.weight = 0
            self._merge()
        return self._wait(session, lambda: self._reply(session, True) if self.over else None)

    def _wait(self, session: Session, answer: Any) -> dict[str, Any] | None:
        end = time.monotonic() + self.poll
        while True:
            if self.dead or session.peer.down:
                return None
            reply = answer()
            if reply is not None:
                return reply
            left = end - time.monotonic()
            if left <= 0:
                pending = {"pending": True, "waiting": f"more peers (need {session.body['min_peers']})",
                           "warnings": self.warnings}  # fmt: skip
                if session.closed and self.round:
                    pending |= {"round": self.round, "slot": self.slot}
                return pending
            self.changed.wait(left)

    def _merge(self) -> None:
        """Make a round if everybody who trains is ready; answer all who wait."""
        if self.held:
            return
        sessions = self.sessions()
        if self.over:
            for session in sessions:
                if session.ready and not session.closed:
                    self._answer(session, False)
            self.changed.notify_all()
            return
        active = [s for s in sessions if s.base == self.round]
        late = [s for s in sessions if s.base != self.round and s.ready]
        for session in late:
            session.install(self.model, self.slot)
            self._answer(session, False)
        needed = max((s.body["min_peers"] for s in sessions), default=1)
        ready = [s for s in active if s.ready]
        closed = [s for s in sessions if s.closed]
        if len(ready) >= needed and len(ready) == len(active) and not (late and not ready):
            self._commit(ready)
            if len(closed) >= needed:
                self.over = True
            for session in ready:
                if not session.closed:
                    self._answer(session, True)
        self.changed.notify_all()

    def _commit(self, ready: list[Session]) -> None:
        total = sum(s.weight for s in ready)
        if total == 0:
            merged = self.model
        else:
            columns = zip(*[[s.weight * value for value in s.values()] for s in ready])
            merged = [sum(column[1:], column[0]) / total for column in columns]
        self.round += 1
        self.model = merged
        self.slot = "merged-1" if self.slot == "merged-0" else "merged-0"
        self.participants = [s.peer.name for s in ready]
        for session in ready:
            session.install(merged, self.slot)
            session.base = self.round

    def _answer(self, session: Session, contributed: bool) -> None:
        if self.over:
            session.install(self.model, self.slot)
        session.base = self.round
        session.replies[session.seq] = self._reply(session, contributed)
        session.ready = False

    def _reply(self, session: Session, contributed: bool) -> dict[str, Any]:
        return {"pending": False, "round": self.round, "slot": self.slot,
                "interval": self.interval or session.body["sync_frequency"], "training_over": self.over,
                "contributed": contributed, "digest": f"{self.round:064x}", "sha256": session.sum(self.slot, self.damaging),
                "participants": self.participants, "warnings": self.warnings}  # fmt: skip
