"""Tracebacks of a SwarmError: they end where the program called this package, not somewhere inside it."""

from __future__ import annotations

import functools
import os
import sys
import traceback
from types import TracebackType
from typing import Any, Callable, Optional, TypeVar, cast

from swarmlearning.errors import NoBridgeError, SwarmError

Hook = TypeVar("Hook", bound=Callable[..., Any])

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_INSTALLED = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
_MARK = "_swarmlearning"


def at_caller(hook: Hook) -> Hook:
    """Let a SwarmError of a hook have one frame of this package, whoever catches and prints it."""

    @functools.wraps(hook)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return hook(*args, **kwargs)
        except SwarmError as err:
            _install()
            inner = err.__traceback__.tb_next if err.__traceback__ is not None else None
            if _last_of_program(inner) is not None:
                # What the program gave, such as evaluate, raised it: that is where to look.
                raise
            raise err.with_traceback(None)  # noqa: B904 - the same error: its cause stays

    return cast(Hook, call)


def rendered(error: SwarmError) -> list[str]:
    """Give the lines that a notebook shows: the program's frames and the message."""
    cut = _cut(error.__traceback__)
    while cut is not None and not _of_program(cut):
        cut = cut.tb_next
    return "".join(traceback.format_exception(type(error), error, cut)).rstrip("\n").split("\n")


def _of_program(entry: TracebackType) -> bool:
    name = entry.tb_frame.f_code.co_filename
    return not os.path.abspath(name).startswith(_HERE) and not any(part in name for part in _INSTALLED)


def _last_of_program(entry: Optional[TracebackType]) -> Optional[TracebackType]:
    found = None
    while entry is not None:
        if _of_program(entry):
            found = entry
        entry = entry.tb_next
    return found


def _cut(entry: Optional[TracebackType]) -> Optional[TracebackType]:
    """Give a traceback without what comes after the program's last frame; as it is where the program has none."""
    last = _last_of_program(entry)
    if last is None:
        return entry
    kept: list[TracebackType] = []
    while entry is not None:
        kept.append(entry)
        if entry is last:
            break
        entry = entry.tb_next
    out: Optional[TracebackType] = None
    for item in reversed(kept):
        out = TracebackType(out, item.tb_frame, item.tb_lasti, item.tb_lineno)
    return out


def _install() -> None:
    """Have a SwarmError that ends the program printed short, by whatever prints errors; all others are left alone."""
    previous = sys.excepthook
    if getattr(previous, _MARK, False):
        return

    def show(kind: type[BaseException], value: BaseException, entry: Optional[TracebackType]) -> None:
        if isinstance(value, NoBridgeError):
            # The program is right: it was only started in the wrong way.
            print(f"{os.path.basename(sys.argv[0]) or 'python'}: {value}", file=sys.stderr)
            return
        if isinstance(value, SwarmError):
            entry = _cut(entry)
            value = value.with_traceback(entry)
        previous(kind, value, entry)

    setattr(show, _MARK, True)
    sys.excepthook = show
