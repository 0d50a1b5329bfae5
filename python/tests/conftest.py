from __future__ import annotations

import pathlib
import signal
from collections.abc import Iterator
from typing import Any, Callable

import pytest

from fakeswarm import FakeSwarm
from torchranks import Ended, Run, Server


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


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture
def run(server: Server, tmp_path: pathlib.Path) -> Run:
    """Run the ranks of a swarm's peers, of one or of two each; every has what all are given and its own of the lists."""

    def start(
        swarm: FakeSwarm, sizes: tuple[int, ...], own: dict[tuple[int, int], Any] | None = None, **given: Any
    ) -> list[Ended]:
        ranks = []
        for peer, size in enumerate(sizes):
            for rank in range(size):
                ranks.append({"bridge": swarm.peers[peer].directory, "store": str(tmp_path / f"store-{peer}"), "rank": rank,
                              "size": size, "seed": peer, "callback": {}, **given, **(own or {}).get((peer, rank), {})})  # fmt: skip
        return server.start(tmp_path / "ranks", *ranks).ended()

    return start
