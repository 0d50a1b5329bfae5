"""A swarm of real daemons: swarmctl local up, with its context and temporary files in a folder of its own."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pathlib
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Optional

import pytest

from swarmlearning.client import _UnixConnection

ROOT = pathlib.Path(__file__).resolve().parents[2]
START_SECONDS = 120
STOP_SECONDS = 30


def binaries(tmp: pathlib.Path) -> pathlib.Path:
    """Give the folder with swarmd and swarmctl: SWARM_BIN, else they are built, else the test is skipped."""
    given = os.environ.get("SWARM_BIN")
    if given:
        folder = pathlib.Path(given).resolve()
        assert (folder / "swarmctl").exists(), f"SWARM_BIN: no swarmctl in {folder}"
        return folder
    if shutil.which("go") is None:
        pytest.skip("swarmd is not built: set SWARM_BIN to the folder of the binaries, or install Go")
    subprocess.run([ROOT / "scripts" / "build", tmp], check=True)
    return tmp


def environment(home: pathlib.Path, **more: str) -> dict[str, str]:
    """Give an environment whose contexts lie in home and that has no other SWARM_ variables than more."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SWARM_")}
    return {**kept, "XDG_STATE_HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1", **more}


class RealSwarm:
    """Peers sl-0 … that wait for programs; bridges names the folder for each one's SWARM_BRIDGE_DIR."""

    def __init__(self, binaries: pathlib.Path, home: pathlib.Path, peers: int, quorum_wait: str = "2s") -> None:
        self.ctl = str(binaries / "swarmctl")
        self.logs = home / "logs"
        self.env = environment(home, SWARM_FULL_QUORUM_WAIT=quorum_wait)
        command = [self.ctl, "local", "up", "--peers", str(peers), "--log-dir", str(self.logs)]
        self._stderr = open(home / "up.err", "w+b")  # noqa: SIM115 - closed by close.
        self._process = subprocess.Popen(
            command, env=self.env, stdout=subprocess.PIPE, stderr=self._stderr, text=True, cwd=home
        )
        self.bridges: list[str] = []
        try:
            with alarm(START_SECONDS, "swarmctl local up does not become ready"):
                self.api = self._line().removeprefix("API ")
                for _ in range(peers):
                    words = dict(word.split("=", 1) for word in shlex.split(self._line()) if "=" in word)
                    self.bridges.append(words["SWARM_BRIDGE_DIR"])
        except BaseException:
            self.kill()
            raise

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._stderr.seek(0)
            raise AssertionError(f"swarmctl local up ended: {self._stderr.read().decode()}")
        return line.strip()

    def kill(self) -> None:
        """End it at once; its daemons die with it. A no-op when it has ended."""
        if self._process.stdout is None or self._process.stdout.closed:
            return
        self._process.kill()
        self._process.communicate()
        self._stderr.close()

    def close(self) -> int:
        """End it with TERM; give its exit code."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_SECONDS)
        finally:
            self.kill()

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([self.ctl, *words], env=self.env, capture_output=True, text=True, timeout=60, check=False)

    def status(self, contract: str) -> dict[str, Any]:
        got = self.command("get", "contract", "status", contract, "-o", "json")
        assert got.returncode == 0, got.stderr
        status: dict[str, Any] = json.loads(got.stdout)
        return status

    def text(self, contract: str) -> str:
        """Give the status as a user sees it."""
        got = self.command("get", "contract", "status", contract)
        assert got.returncode == 0, got.stderr
        return got.stdout

    def daemon(self, peer: int) -> int:
        """Give the process ID of the SL behind a bridge."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.connect(os.path.join(self.bridges[peer], "bridge.sock"))
            raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid: int = struct.unpack("3i", raw)[0]
        return pid

    def bridge(self, peer: int, method: str, path: str, body: Optional[dict[str, Any]] = None) -> dict[str, Any]:
        """Speak to a bridge as curl would."""
        connection = _UnixConnection(os.path.join(self.bridges[peer], "bridge.sock"), 30)
        with contextlib.closing(connection):
            connection.request(method, path, body=None if body is None else json.dumps(body))
            reply: dict[str, Any] = json.loads(connection.getresponse().read())
            return reply

    def end_sessions(self) -> None:
        """Abort what a failed test left open, so that the next one can start."""
        for peer in range(len(self.bridges)):
            try:
                status = self.bridge(peer, "GET", "/v1/status")
                if status.get("session") and not status.get("error") and status.get("phase") != "finished":
                    self.bridge(peer, "POST", "/v1/abort", {"session": status["session"], "reason": "test ended"})
            except (OSError, ValueError, http.client.HTTPException):
                continue


@contextlib.contextmanager
def alarm(seconds: int, text: str) -> Iterator[None]:
    """Fail after seconds; for the main thread."""

    def fail(*_: object) -> None:
        raise AssertionError(text)

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def split(example: str, shards: pathlib.Path, peers: int) -> None:
    """Divide an example's data among peers: shards/0, shards/1, …"""
    source = ROOT / "examples" / example / "split.py"
    command = [sys.executable, str(source), "--peers", str(peers), "--out", str(shards)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def local_run(
    binaries: pathlib.Path, work: pathlib.Path, example: str, platform: str, peers: int, *more: str, data: str = ""
) -> tuple[dict[str, Any], str]:
    """Split an example's data and run it with swarmctl local run --baseline; give the summary and what it printed.

    data is the example whose data it is, if it is another one's.
    """
    source = ROOT / "examples" / example
    shards, out = work / "shards", work / "out"
    split(data or example, shards, peers)
    run = [str(binaries / "swarmctl"), "local", "run", "--peers", str(peers), "--platform", platform,
           "--python", sys.executable, "--model-dir", str(source), "--model-program", "train.py",
           "--data-dir", f"{shards}/{{peer}}", "--out", str(out), "--timeout", "5m", "--baseline", *more]  # fmt: skip
    done = subprocess.run(run, env=environment(work), capture_output=True, text=True, timeout=330, check=False)
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    summary: dict[str, Any] = json.loads((out / "summary.json").read_text())
    return summary, printed
