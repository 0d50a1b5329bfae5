"""Programs as threads, and what they wrote."""

from __future__ import annotations

import json
import pathlib
import threading
from typing import Any, Callable

import pytest


def together(*programs: Callable[[], Any]) -> list[Any]:
    """Run programs at the same time; raise the first error, else give their results."""
    results: list[Any] = [None] * len(programs)
    errors: list[BaseException] = []

    def run(index: int) -> None:
        try:
            results[index] = programs[index]()
        except BaseException as err:
            errors.append(err)

    threads = [threading.Thread(target=run, args=(index,), daemon=True) for index in range(len(programs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "program hangs"
    if errors:
        raise errors[0]
    return results


def events(path: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


_ENVIRONMENT = threading.Lock()


def construct(directory: str, make: Callable[[], Any], metrics: Any = "") -> Any:
    """Make a callback as in a program whose daemon has its bridge in directory; peers are threads here."""
    with _ENVIRONMENT, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SWARM_BRIDGE_DIR", directory)
        patch.setenv("SWARM_METRICS_FILE", str(metrics))
        return make()
