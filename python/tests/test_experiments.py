"""The tables and pictures of docs/reference/merging.md are those of the results in docs/experiments."""

from __future__ import annotations

import importlib
import pathlib
import shutil
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXPERIMENTS = ROOT / "docs" / "experiments"


@pytest.fixture
def page(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    if not EXPERIMENTS.exists():
        pytest.skip("the package stands alone here")
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    module = importlib.import_module("page")
    monkeypatch.setattr(module, "PAGE", tmp_path / "merging.md")
    shutil.copy(ROOT / "docs" / "reference" / "merging.md", tmp_path)
    return module


def same(drawn: pathlib.Path) -> None:
    assert drawn.read_text() == (ROOT / "docs" / "reference" / drawn.name).read_text(), (
        f"{drawn.name}: run the script with --draw"
    )


def test_checkin(page: Any, tmp_path: pathlib.Path) -> None:
    results = importlib.import_module("trials").stored(EXPERIMENTS / "checkin.json")
    assert len(results) == len(page.CASES) * len(page.MODES) * 5
    page.draw(results)
    for name in ("merging.md", "checkin-accuracy.svg", "checkin-merges.svg"):
        same(tmp_path / name)


def test_merging(page: Any, tmp_path: pathlib.Path) -> None:
    merging = importlib.import_module("merging")
    page.write_tables(
        importlib.import_module("trials").stored(merging.RESULTS),
        merging.RATES,
        merging.INTERVALS,
        list(merging.NORMS),
        list(merging.WEIGHTS),
    )
    same(tmp_path / "merging.md")
