"""Swarms of real daemons for the tests of this folder; started once, so each test names a contract of its own."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Callable

import pytest

from realswarm import RealSwarm, binaries


@pytest.fixture(scope="session")
def swarm_binaries(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return binaries(tmp_path_factory.mktemp("bin"))


@pytest.fixture(scope="session")
def start_swarm(
    swarm_binaries: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[int], RealSwarm]]:
    made: list[RealSwarm] = []

    def start(peers: int) -> RealSwarm:
        made.append(RealSwarm(swarm_binaries, tmp_path_factory.mktemp("swarm"), peers))
        return made[-1]

    yield start
    for swarm in made:
        swarm.kill()


@pytest.fixture(scope="session")
def pair_of_daemons(start_swarm: Callable[[int], RealSwarm]) -> Iterator[RealSwarm]:
    swarm = start_swarm(2)
    yield swarm
    assert swarm.close() == 0
    assert [bridge for bridge in swarm.bridges if pathlib.Path(bridge).exists()] == []


@pytest.fixture
def pair(pair_of_daemons: RealSwarm) -> Iterator[RealSwarm]:
    """Two peers."""
    yield pair_of_daemons
    pair_of_daemons.end_sessions()


@pytest.fixture(scope="module")
def three(start_swarm: Callable[[int], RealSwarm]) -> Iterator[RealSwarm]:
    """Three peers for tests that break them."""
    swarm = start_swarm(3)
    yield swarm
    swarm.close()
    assert [bridge for bridge in swarm.bridges if pathlib.Path(bridge).exists()] == []
