"""What programs and users see when something is wrong: each is one clear error, at the program and in the status."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Callable

import numpy as np
import pytest

from helpers import construct, events, together
from realswarm import ROOT, RealSwarm
from swarmlearning import errors
from swarmlearning.arrays import SwarmCallback
from swarmlearning.client import Client
from swarmlearning.layout import Layout, Tensor

LAYOUT = Layout([Tensor("layer.weight", "float32", (100_000,))])


def make(swarm: RealSwarm, peer: int, contract: str, weights: dict[str, Any], metrics: Any = "", **more: Any) -> Any:
    options = {"syncFrequency": 1, "minPeers": 2, "trainingContract": contract, "totalEpochs": 1, **more}
    return construct(swarm.bridges[peer], lambda: SwarmCallback(weights=weights, **options), metrics)


def client(swarm: RealSwarm, peer: int, contract: str, layout: Layout = LAYOUT) -> Client:
    """Open a session below the callback, which would refuse what these tests do."""
    opened = Client(swarm.bridges[peer])
    terms = {"contract": contract, "min_peers": 2, "sync_frequency": 1, "checkin_mode": "snapshot", "weight": 1,
             "method": "mean", "framework": "numpy"}  # fmt: skip
    opened.open(terms, layout)
    return opened


def value(number: float) -> dict[str, Any]:
    return {"w": np.full(3, number, np.float32)}


def error_of(program: Callable[[], Any]) -> Callable[[], errors.SwarmError]:
    def run() -> errors.SwarmError:
        with pytest.raises(errors.SwarmError) as caught:
            program()
        return caught.value

    return run


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"timeout: {what}"
        time.sleep(0.02)


def reset_when(swarm: RealSwarm, contract: str, text: str) -> None:
    """Wait until the contract's status says text, then end all sessions, so that who waits is let go."""
    wait_for(lambda: text in swarm.text(contract), text)
    done = swarm.command("reset", "contract", contract, "force")
    assert done.returncode == 0, done.stderr


def one_fails(swarm: RealSwarm, contract: str, program: Callable[[int], Any], text: str) -> list[errors.SwarmError]:
    """Run program(0), which fails, beside program(1), which waits for it; give the errors of both, and hold that the status says text."""
    failed = threading.Event()

    def first() -> errors.SwarmError:
        try:
            return error_of(lambda: program(0))()
        finally:
            failed.set()

    def release() -> None:
        wait_for(failed.is_set, "the error at the program")  # its attempt may say the same before its session has ended
        reset_when(swarm, contract, text)

    return together(first, error_of(lambda: program(1)), release)[:2]


def test_nan_at_the_program(pair: RealSwarm) -> None:
    models = [value(0), value(0)]

    def program(peer: int) -> None:
        callback = make(pair, peer, "nan", models[peer])
        callback.on_train_begin()
        models[peer]["w"][1] = 1 if peer else np.nan
        callback.on_batch_end()

    text = 'tensor "w" has NaN or infinite values'
    mine, others = one_fails(pair, "nan", program, text)
    assert isinstance(mine, errors.NotFiniteError)
    assert text in mine.message
    assert mine.remedy
    assert isinstance(others, errors.ContractResetError)


def test_infinity_past_the_program(pair: RealSwarm) -> None:
    def program(peer: int) -> None:
        opened = client(pair, peer, "inf")
        if peer == 0:
            LAYOUT.view(opened.local(), 0)[99_999] = np.inf
        opened.sync(1, 1, lambda _: None)

    text = 'tensor "layer.weight" element 99999 is +Inf'
    mine, _ = one_fails(pair, "inf", program, f"failed: not finite: {text}")
    assert isinstance(mine, errors.NotFiniteError)
    assert text in mine.message
    assert mine.remedy


def test_weight_file_cut_short(pair: RealSwarm) -> None:
    def program(peer: int) -> None:
        opened = client(pair, peer, "cut")
        if peer == 0:
            os.truncate(os.path.join(pair.bridges[0], "local"), 1000)
        opened.sync(1, 1, lambda _: None)

    text = "is 1000 bytes, want 400000: the program must not truncate or extend it"
    mine, _ = one_fails(pair, "cut", program, f"failed: weight file local {text}")
    assert isinstance(mine, errors.WeightFileError)
    assert text in mine.message
    assert mine.remedy


def test_other_layers(pair: RealSwarm) -> None:
    def program(peer: int) -> None:
        if peer == 1:
            wait_for(lambda: "sl-0" in pair.command("get", "contract", "status", "layers").stdout, "first session")
        weights = {"v": np.zeros((2, 2))} if peer else value(0)
        callback = make(pair, peer, "layers", weights, minPeers=1)
        callback.on_train_begin()
        callback.on_train_end()

    _, err = together(lambda: program(0), error_of(lambda: program(1)))
    assert isinstance(err, errors.TermsDifferError)
    assert 'tensor 0 is named "v" here and "w" in the contract' in err.message
    assert "reset contract layers" in err.remedy


def test_contract_that_is_over(pair: RealSwarm) -> None:
    def program(peer: int) -> None:
        callback = make(pair, peer, "done", value(0))
        callback.on_train_begin()
        callback.on_train_end()

    together(lambda: program(0), lambda: program(1))
    err = error_of(lambda: program(0))()
    assert isinstance(err, errors.ContractOverError)
    assert "reset contract done" in err.remedy


def test_second_program_at_one_daemon(pair: RealSwarm) -> None:
    first = client(pair, 0, "second")
    err = error_of(lambda: client(pair, 0, "second"))()
    assert isinstance(err, errors.SessionOpenError)
    first.abort("test ended")
    assert "failed: test ended" in pair.text("second")


PROGRAM = """
import os, sys
import numpy as np
from swarmlearning.arrays import SwarmCallback
w = {"w": np.zeros(3, np.float32)}
callback = SwarmCallback(1, int(os.environ["MIN_PEERS"]), os.environ["CONTRACT"], weights=w, totalEpochs=1)
callback.on_train_begin()
print("begun", flush=True)
for step in range(int(os.environ["STEPS"])):
    if sys.stdin.readline() == "fail\\n":
        raise ValueError("no more data")
    w["w"] += 1
    callback.on_batch_end()
callback.on_train_end()
"""


def run_program(swarm: RealSwarm, peer: int, contract: str, metrics: pathlib.Path, steps: int) -> subprocess.Popen[str]:
    env = {name: text for name, text in os.environ.items() if not name.startswith("SWARM_")}
    env |= {"SWARM_BRIDGE_DIR": swarm.bridges[peer], "SWARM_METRICS_FILE": str(metrics), "CONTRACT": contract,
            "MIN_PEERS": "2", "STEPS": str(steps), "PYTHONPATH": str(ROOT / "python" / "src")}  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def begun(program: subprocess.Popen[str]) -> None:
    assert program.stdout is not None
    while "begun" not in program.stdout.readline():
        assert program.poll() is None


def finish(programs: list[subprocess.Popen[str]]) -> None:
    """Let programs do their steps together."""
    for program in programs:
        assert program.stdin is not None
        program.stdin.write("\n" * 5)
        program.stdin.flush()
    for program in programs:
        program.communicate(timeout=60)
        assert program.returncode == 0


def test_program_that_fails_between_merges(pair: RealSwarm, tmp_path: pathlib.Path) -> None:
    with (
        run_program(pair, 0, "fails", tmp_path / "0", 5) as bad,
        run_program(pair, 1, "fails", tmp_path / "1", 5) as good,
    ):
        begun(bad)
        begun(good)
        bad.communicate("fail\n", timeout=30)
        assert bad.returncode == 1
        assert "failed: ValueError: no more data" in pair.text("fails")
        # Started again by hand it may join anew.
        with run_program(pair, 0, "fails", tmp_path / "2", 5) as again:
            finish([good, again])
    assert events(tmp_path / "1")[-1]["model_sha256"] == events(tmp_path / "2")[-1]["model_sha256"]


def test_killed_program_is_left_out(three: RealSwarm, tmp_path: pathlib.Path) -> None:
    programs = [run_program(three, peer, "killed", tmp_path / str(peer), 5) for peer in range(3)]
    try:
        for program in programs:
            begun(program)
        programs[2].kill()
        finish(programs[:2])
    finally:
        for program in programs:
            program.kill()
            program.communicate()
    ends = [events(tmp_path / str(peer))[-1] for peer in range(2)]
    assert {end["event"] for end in ends} == {"end"}
    assert len({end["model_sha256"] for end in ends}) == 1
    merges = [event["participants"] for event in events(tmp_path / "0") if event["event"] == "merge"]
    assert sorted(merges[0]) == ["sl-0", "sl-1", "sl-2"]
    assert sorted(merges[-1]) == ["sl-0", "sl-1"]


def test_daemon_killed(three: RealSwarm) -> None:
    # The last one with these daemons: one of them is dead now.
    began = 0.0

    def program(peer: int) -> None:
        make(three, peer, "daemon", value(peer), minPeers=3).on_train_begin()  # peer 2 never comes

    def kill() -> None:
        nonlocal began
        wait_for(lambda: "need 3" in three.command("get", "contract", "status", "daemon").stdout, "peers wait")
        began = time.monotonic()
        os.kill(three.daemon(0), signal.SIGKILL)

    def idle() -> None:
        # local up ends all daemons when one is gone.
        make(three, 1, "daemon", value(1), minPeers=3).on_train_begin()

    err, other, _ = together(error_of(lambda: program(0)), error_of(idle), kill)
    assert isinstance(err, errors.DaemonGoneError)
    # Its session is ended before its daemon is gone; which of the two it hears is a matter of moments.
    assert isinstance(other, (errors.DaemonGoneError, errors.SessionEndedError))
    assert time.monotonic() - began < 5
    assert "the swarm daemon has ended while this program was in a session" in err.message
