from __future__ import annotations

import pathlib
import signal
from collections.abc import Iterator
from typing import Any, Callable

import pytest

from fakeswarm import FakeSwarm


@pytest.fixture(autouse=True, scope="session")
def interruptible() -> None:
    """A shell that puts these tests in the background has them ignore SIGINT, and the programs that they start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SWARM_LOOPBACK", "SWARM_BRIDGE_DIR", "SWARM_METRICS_FILE", "SWARM_RECONNECT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def make_swarm(tmp_path: pathlib.Path) -> Iterator[Callable[..., FakeSwarm]]:
    made: list[FakeSwarm] = []

    def make(peers: int, **options: Any) -> FakeSwarm:
        made.append(FakeSwarm(str(tmp_path / f"swarm-{len(made)}"), peers, **options))
        return made[-1]

    yield make
    for swarm in made:
        swarm.close()
