"""The vectors that the merge's tests read are what the reference computes, and that agrees with published results."""

from __future__ import annotations

import json
import pathlib
import runpy
import shutil
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "merge" / "testdata"
REFERENCE = runpy.run_path(str(FOLDER / "reference.py"), run_name="reference")
ROWS = REFERENCE["ROWS"]


def check(folder: pathlib.Path, script: str = "reference.py") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(folder / script), "--check"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_committed_vectors_are_the_references() -> None:
    done = check(FOLDER)
    assert done.returncode == 0, done.stderr


def test_committed_differences_are_the_references() -> None:
    done = check(FOLDER, "wire.py")
    assert done.returncode == 0, done.stderr


def test_drift_is_found(tmp_path: pathlib.Path) -> None:
    shutil.copy(FOLDER / "reference.py", tmp_path)
    cases = json.loads((FOLDER / "vectors.json").read_text())
    (tmp_path / "vectors.json").write_text(json.dumps(cases[:-1]))
    assert "another number of cases" in check(tmp_path).stderr
    cases[3]["want"][0] += 1e-6
    (tmp_path / "vectors.json").write_text(json.dumps(cases))
    assert "case 3" in check(tmp_path).stderr


@pytest.mark.parametrize(
    ("weights", "mean", "median", "geometric"),
    [
        ([1, 1, 1, 1], [2.75, 2.75, 26.5], [0.5, 0.5, 2.5], [0.38789, 0.47646, 2.58087]),
        ([2, 1, 1, 1], [2.2, 2.2, 21.4], [0, 0, 2], [0.39885, 0.19689, 1.95825]),
    ],
)
def test_published_results(weights: list[int], mean: list[float], median: list[float], geometric: list[float]) -> None:
    def want(method: str) -> Any:
        case = {"method": method, "weights": weights, "contributors": ROWS, "base": None,
                "state": None, "dtypes": ["float64"], "shapes": [[3]]}  # fmt: skip
        return REFERENCE["merge"](case)[0]

    np.testing.assert_allclose(want("mean"), mean, rtol=1e-12)
    np.testing.assert_allclose(want("coordmedian"), median, rtol=1e-12)
    np.testing.assert_allclose(want("geomedian"), geometric, atol=1e-5)


def test_geometric_medians_are_the_least_sum_of_distances() -> None:
    def cost(point: Any) -> float:
        return float(w @ np.linalg.norm(x - point, axis=1))

    random = np.random.RandomState(1)
    tried = 0
    for case in json.loads((FOLDER / "vectors.json").read_text()):
        if case["method"] != "geomedian" or case["dtype"] != "float32":
            continue
        x, w, want = (np.array(case[name], np.float64) for name in ("contributors", "weights", "want"))
        for size in (1e-3, 1e-2, 0.1, 1):
            for _ in range(50):
                assert cost(want) <= cost(want + size * random.standard_normal(want.shape)) + 1e-5
        tried += 1
    assert tried > 5
