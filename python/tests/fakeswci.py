"""A small SWCI in web mode: mutual TLS, contexts, contracts, tasks and one taskrunner, with answers that a test may damage."""

from __future__ import annotations

import contextlib
import http.server
import json
import pathlib
import shlex
import ssl
import subprocess
import threading
import urllib.parse
from collections.abc import Iterator
from typing import Any, Callable, Optional

NODES = [
    "TYPE,HOST_IP,PORT,CONTAINER,UID,PARENT_UID,LAST_I_AM_ALIVE",
    "SL,10.0.0.3,30305,sl-0,u3,u2,2026-11-25 20:00:00",
    "SENTINEL,10.0.0.1,30304,sn-0,u1,,2026-11-25 20:00:01",
    "SWOP,10.0.0.2,0,swop-0,u2,u1,2026-11-25 20:00:02",
]


def openssl(*words: str, cwd: pathlib.Path) -> None:
    subprocess.run(["openssl", *words], cwd=cwd, check=True, capture_output=True)


class Authority:
    """A CA in a folder of its own, and what it signs."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        folder.mkdir()
        openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
            *("-subj", "/CN=CA", "-keyout", "ca-key.pem", "-out", "ca.pem"),
            cwd=folder,
        )
        self.bundle = str(folder / "ca.pem")

    def issue(self, name: str, subject: str, san: str) -> tuple[str, str]:
        """Give the paths of a certificate and its key."""
        openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", subject),
            *("-keyout", f"{name}-key.pem", "-out", f"{name}.csr"),
            cwd=self.folder,
        )
        (self.folder / f"{name}.ext").write_text(f"subjectAltName={san}\nkeyUsage=digitalSignature\n")
        openssl(
            *("x509", "-req", "-days", "1", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca-key.pem"),
            *("-CAcreateserial", "-extfile", f"{name}.ext", "-out", f"{name}.pem"),
            cwd=self.folder,
        )
        return str(self.folder / f"{name}.pem"), str(self.folder / f"{name}-key.pem")


class FakeSwci:
    """What the commands of one SWCI see and change."""

    def __init__(self) -> None:
        self.commands: list[str] = []
        self.files: dict[str, bytes] = {}
        self.contexts: list[str] = []
        self.context = ""
        self.contracts: list[str] = []
        self.finalized: list[str] = []
        self.states: list[str] = []  # of the taskrunner, one for each time that it is asked for
        self.raw: Optional[Callable[[http.server.BaseHTTPRequestHandler], None]] = None  # answers in place of all this

    def run(self, line: str) -> list[str]:
        self.commands.append(line)
        words = shlex.split(line)
        name = words[2] if len(words) > 2 else ""
        two = " ".join(words[:2])
        if two == "CREATE CONTEXT":
            if name in self.contexts:
                return [f"ERROR : context {name} exists", "not reached"]
            self.contexts.append(name)
            return ["API Server is UP!", f"CONTEXT CREATED : {name}"]
        if two == "SWITCH CONTEXT":
            self.context = name
            return [f"DEFAULT CONTEXT SET TO : {name}"]
        if not self.context and words[0] not in ("LS", "PWD", "CD", "SLEEP"):
            return ["ERROR : no SN is known\nhint: switch context NAME"]
        if two == "CREATE CONTRACT":
            self.contracts.append(name)
            return [f"CONTRACT CREATED : {name}"]
        if line == "CREATE TASK FROM x.yaml":
            return [
                "Task definition is valid\nTask Registered : x\nAppending Task Body",
                "batch start : 1 , len : 4 Successful",
            ]
        if two == "FINALIZE TASK":
            self.finalized.append(name)
            return [f"Task Finalized : {name}"]
        if line.startswith("GET TASKRUNNER STATUS"):
            state = self.states.pop(0)
            return [state] if state.startswith("ERROR ") else [f"TASK_STATE                : {state}"]
        answers = {"LIST CONTRACTS": self.contracts, "LIST NODES": ["\n".join(NODES)], "LIST TASKS": ["ROOTTASK"]}
        return answers.get(two, [f"{line} : done"])


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        fake: FakeSwci = self.server.fake  # type: ignore[attr-defined]
        if fake.raw is not None:
            fake.raw(self)
            return
        url = urllib.parse.urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if url.path == "/exec":
            (command,) = urllib.parse.parse_qs(url.query)["cmd"]
            self.answer(json.dumps({"CONTENT": fake.run(command)}).encode())
        elif url.path == "/uploadTaskDef":
            edge = self.headers["Content-Type"].split("boundary=")[1].encode()
            head, _, rest = body.partition(b"\r\n\r\n")
            name = head.split(b'filename="')[1].split(b'"')[0].decode()
            fake.files[name] = rest[: rest.index(b"\r\n--" + edge + b"--")]
            self.answer(f"{name} is stored".encode())
        else:
            self.answer(b"no such page", status=404)

    def answer(self, data: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that hang up: some tests are such."""


@contextlib.contextmanager
def serving(fake: FakeSwci, cert: tuple[str, str], clients: str) -> Iterator[int]:
    """Serve fake with a certificate to clients of a CA; give the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*cert)
    context.load_verify_locations(clients)
    context.verify_mode = ssl.CERT_REQUIRED
    server = Server(("127.0.0.1", 0), Handler)
    server.fake = fake  # type: ignore[attr-defined]
    # The handshake is made by the connection's own thread, at the first read.
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
