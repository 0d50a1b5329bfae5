"""What ends a program from outside while it has a session."""

from __future__ import annotations

import signal
import threading
from typing import Any, Optional

# As shells tell of a program that a signal has ended.
CODE = 128 + signal.SIGTERM


class Termination:
    """Makes SIGTERM an exit of Python's, so that what is to be done at the end is done.

    Launchers end rank 0 with it when another rank has failed, at times before rank 0 has noticed that.
    """

    def __init__(self) -> None:
        """Leave the signal as it is."""
        self.came = False
        self._held = False

    def hold(self) -> None:
        """Take the signal if nobody else does. Only Python's main thread can."""
        if threading.current_thread() is not threading.main_thread() or self._held:
            return
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._exit)
            self._held = True

    def release(self) -> None:
        """Leave the signal as it was, unless the program has taken it meanwhile."""
        if not self._held or threading.current_thread() is not threading.main_thread():
            return
        self._held = False
        if signal.getsignal(signal.SIGTERM) == self._exit:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _exit(self, number: int, frame: Optional[Any]) -> None:
        if self.came:
            # A launcher and what has started it may both send it; the exit is under way.
            return
        self.came = True
        raise SystemExit(CODE)
