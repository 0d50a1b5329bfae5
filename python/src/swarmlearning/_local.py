"""Layers that stay with their peer: which of a model's tensors localLayers names."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Sequence

from swarmlearning.errors import ParameterError

# Tensors and layers that an error shows.
_SHOWN = 3


class LocalLayers:
    """Patterns for the tensors that are neither merged nor overwritten. False when there are none."""

    def __init__(self, given: object) -> None:
        """Take a name or pattern, a list of them, or None."""
        patterns = [given] if isinstance(given, str) else given
        if patterns is None:
            patterns = []
        if not isinstance(patterns, Sequence) or not all(isinstance(item, str) and item for item in patterns):
            raise ParameterError(
                f"localLayers: {given!r} is not allowed",
                'give a list of names or patterns, like ["head", "bn*.running_*"]',
            )
        self._patterns = tuple(patterns)
        self._known: dict[tuple[str, ...], bool] = {}

    def __bool__(self) -> bool:
        """Tell whether any are given."""
        return bool(self._patterns)

    def shared(self, tensors: Sequence[tuple[str, ...]]) -> list[bool]:
        """Tell of each tensor, given by all its names, whether it is merged.

        A pattern that fits no tensor is an error that shows near names, since it would merge what was to stay.
        """
        if not self._patterns:
            return [True] * len(tensors)
        for pattern in self._patterns:
            if not any(_fits(pattern, names) for names in tensors):
                raise ParameterError(
                    f"localLayers: {pattern!r} fits no tensor of the model", f"near are {_near(pattern, tensors)}"
                )
        for names in tensors:
            if names not in self._known:
                self._known[names] = not any(_fits(pattern, names) for pattern in self._patterns)
        kept = [self._known[names] for names in tensors]
        if not any(kept):
            raise ParameterError("localLayers: fit every tensor, so nothing is left to merge", "name fewer layers")
        return kept


def _fits(pattern: str, names: Sequence[str]) -> bool:
    """Compare with whole names and with the layers that they lie in."""
    return any(
        fnmatch.fnmatchcase(name, candidate)
        for name in names
        for candidate in (pattern, f"{pattern}.*", f"{pattern}/*")
    )


def _near(pattern: str, tensors: Sequence[tuple[str, ...]]) -> str:
    names = [name for aliases in tensors for name in aliases]
    layers = dict.fromkeys(name[:at] for name in names for at, mark in enumerate(name) if mark in "./" and at)
    candidates = [*layers, *names]
    found = difflib.get_close_matches(pattern.rstrip("*./"), candidates, _SHOWN, 0.5)
    return ", ".join(repr(name) for name in found or [aliases[0] for aliases in tensors[:_SHOWN]])
