"""Events of a training as JSON lines in the file that SWARM_METRICS_FILE names, for swarmctl and for tests."""

from __future__ import annotations

import json
import logging
import math
import os
import platform
import sys
import time
from typing import Optional

import swarmlearning


class MetricsFile:
    """Appends events. A file that can not be written is reported once and never stops training."""

    def __init__(self, logger: logging.Logger, path: Optional[str] = None) -> None:
        """Take path, or SWARM_METRICS_FILE if None; without either, events are dropped."""
        self._path = path if path is not None else os.environ.get("SWARM_METRICS_FILE", "")
        self._logger = logger
        self._broken = False

    def write(self, event: str, **fields: object) -> None:
        """Append one event with the present time."""
        if not self._path or self._broken:
            return
        record: dict[str, object] = {"event": event, "ts": time.time()}
        record.update({key: number(value) if isinstance(value, float) else value for key, value in fields.items()})
        try:
            # One write in append mode: lines of two processes do not mix.
            with open(self._path, "ab", buffering=0) as out:
                out.write((json.dumps(record) + "\n").encode())
        except (OSError, TypeError, ValueError) as err:
            self._broken = True
            self._logger.warning("write metrics file %s: %s; no more events are written", self._path, err)


def versions() -> dict[str, str]:
    """Give the versions of Python, of this package, and of the frameworks that the program has imported."""
    found = {"python": platform.python_version(), "swarmlearning": swarmlearning.__version__}
    for name in ("torch", "tensorflow", "keras", "sklearn", "transformers", "numpy"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if isinstance(version, str):
            found[name] = version
    return found


def number(value: Optional[float]) -> Optional[float]:
    """Give value, or None where JSON has no word for it (NaN, infinity)."""
    return None if value is None or not math.isfinite(value) else float(value)
