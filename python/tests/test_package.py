"""The wheel builds, installs into an environment of its own and imports."""

from __future__ import annotations

import ast
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

from helpers import events

ROOT = pathlib.Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("path", sorted((ROOT / "src").rglob("*.py")), ids=lambda path: path.name)
def test_syntax_is_that_of_the_oldest_python(path: pathlib.Path) -> None:
    """Where Python 3.8 itself is missing: tools/test.sh runs the tests with it where it is not."""
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    # Without it annotations such as list[int] are evaluated, which 3.8 can not.
    assert any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body) or not any(
        isinstance(node, (ast.FunctionDef, ast.ClassDef)) for node in ast.walk(tree)
    )


def test_wheel(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("swarmlearning-0.1.0-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for name in ("swarmlearning/py.typed", "swarmlearning/pyt.py", "swarmlearning/tf.py", "swarm/__init__.py"):
        assert name in names
    assert not [name for name in names if "tests" in name]

    venv = tmp_path / "venv"
    # numpy, the only dependency, comes from outside so that the test needs no network.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", str(venv)], check=True)
    python = str(venv / "bin" / "python")
    # pip works on the new environment from outside: to bring one along takes most of this test's time.
    install = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index", "--no-deps", str(wheel)]
    subprocess.run(install, check=True)
    code = "import swarm, swarmlearning, swarmlearning.arrays; print(swarmlearning.__version__, swarmlearning.__file__)"
    got = subprocess.run([python, "-c", code], check=True, capture_output=True, cwd=tmp_path)
    version, where = got.stdout.decode().split()
    assert version == "0.1.0"
    assert where.startswith(str(venv))

    # A program trains with it where there is nothing else of this project.
    alone = tmp_path / "alone"
    alone.mkdir()
    for name in ("numpy/train.py", "vectors/data.py"):
        shutil.copy(ROOT.parent / "internal/swci/project/files" / name, alone)
    env = {"PATH": os.environ["PATH"], "SWARM_LOOPBACK": "true", "MODEL_DIR": str(alone)}
    metrics = alone / "metrics.jsonl"
    subprocess.run([python, "train.py"], check=True, cwd=alone, env={**env, "SWARM_METRICS_FILE": str(metrics)})
    assert (alone / "model.npz").stat().st_size > 0
    assert events(metrics)[-1]["metric"] > 0.4
    del env["SWARM_LOOPBACK"]
    done = subprocess.run([python, "train.py"], cwd=alone, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("train.py: SWARM_BRIDGE_DIR is not set")
    assert "swarmctl local run --model-dir . --model-program train.py" in done.stderr
