"""What a user sees of an error of this package: where the program called it, and one message."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import traceback
from typing import Any

import numpy as np
import pytest

from swarmlearning import errors
from swarmlearning.arrays import SwarmCallback

SRC = pathlib.Path(__file__).parent.parent / "src"
PROGRAM = """\
import numpy as np
from swarmlearning.arrays import SwarmCallback

def train(swarm):
    swarm.on_batch_end()

def main():
    train(SwarmCallback(syncFrequency=4, minPeers=2, weights={"w": np.ones(2)}))

main()
"""


def run(folder: pathlib.Path, text: str, **variables: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(text)
    env = {**os.environ, "PYTHONPATH": str(SRC), **variables}
    return subprocess.run(
        [sys.executable, "train.py"], cwd=folder, env=env, text=True, capture_output=True, timeout=60, check=False
    )


def test_a_program_outside_a_swarm_is_told_the_command(tmp_path: pathlib.Path) -> None:
    done = run(tmp_path, PROGRAM)
    assert done.returncode == 1
    assert done.stdout.count("\n") <= 1, done.stdout  # what the log says of totalEpochs
    assert done.stderr == (
        "train.py: SWARM_BRIDGE_DIR is not set: this program was not started by a swarm daemon (for a swarm on this "
        "machine: swarmctl local run --model-dir . --model-program train.py --out out; for one of several hosts: "
        "swarmd run-sl ...; without a swarm: SWARM_LOOPBACK=true python3 train.py)\n"
    )


def test_an_error_that_ends_a_program_shows_the_programs_frames_and_once_the_message(tmp_path: pathlib.Path) -> None:
    done = run(tmp_path, PROGRAM, SWARM_LOOPBACK="1")
    assert done.returncode == 1
    assert "swarmlearning/" not in done.stderr
    code = [line.strip() for line in done.stderr.splitlines() if line.startswith("    ") and line.strip(" ~^")]
    assert code == [
        "main()", 'train(SwarmCallback(syncFrequency=4, minPeers=2, weights={"w": np.ones(2)}))', "swarm.on_batch_end()",
    ], done.stderr  # fmt: skip
    assert (done.stdout + done.stderr).count("training has not begun") == 1


def test_other_errors_and_hooks_of_the_program_are_left_alone(tmp_path: pathlib.Path) -> None:
    text = "import sys\nsys.excepthook = lambda kind, value, entry: print('mine', kind.__name__)\n" + PROGRAM
    assert "mine SwarmError" in run(tmp_path, text, SWARM_LOOPBACK="1").stdout
    assert (
        "mine ZeroDivisionError"
        in run(tmp_path, text.replace("swarm.on_batch_end()", "1 / 0"), SWARM_LOOPBACK="1").stdout
    )


def caught(call: Any) -> errors.SwarmError:
    with pytest.raises(errors.SwarmError) as info:
        call()
    return info.value


def test_a_caught_error_has_one_frame_of_this_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setenv("SWARM_LOOPBACK", "1")
    error = caught(SwarmCallback(4, 2, weights={"w": np.ones(2)}).on_epoch_end)
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if str(SRC) in frame.filename]
    assert len(ours) == 1
    error = caught(lambda: SwarmCallback(0, 2, weights={"w": np.ones(2)}))
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if str(SRC) in frame.filename]
    assert len(ours) == 1


def test_what_the_programs_own_functions_raise_keeps_its_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setenv("SWARM_LOOPBACK", "1")

    def evaluate() -> float:
        raise errors.SwarmError("no data")

    callback = SwarmCallback(4, 2, weights={"w": np.ones(2)}, evaluate=evaluate)
    callback.on_train_begin()
    frames = traceback.extract_tb(caught(callback.on_epoch_end).__traceback__)
    assert frames[-1].name == "evaluate"


def test_a_notebook_shows_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setenv("SWARM_LOOPBACK", "1")
    callback = SwarmCallback(4, 2, weights={"w": np.ones(2)})
    lines = caught(lambda: callback.on_batch_end())._render_traceback_()
    assert not any("site-packages" in line or str(SRC) in line for line in lines)
    assert lines[-1] == (
        "swarmlearning.errors.SwarmError: on_batch_end: training has not begun, or an error has ended it "
        "(call on_train_begin first)"
    )
