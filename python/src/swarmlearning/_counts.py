"""What a program has trained: batches, and samples where it or its data tells how many."""

from __future__ import annotations

from typing import Optional

from swarmlearning import _params


class Counts:
    """Counts batches and samples since the last merge, and the samples of one pass through the data.

    What is not known of one batch is not known of the sum.
    """

    def __init__(self, data: Optional[int] = None) -> None:
        """data is the number of samples in one pass, None where it is to be counted."""
        self._data = data
        self.reset()

    def reset(self) -> None:
        """Begin anew, with another training."""
        self._batches = 0
        self._trained = 0
        self._samples: Optional[int] = 0
        self._total: Optional[int] = 0
        self._epoch: Optional[int] = 0
        self._fresh: Optional[int] = 0
        self._passed = 0

    @property
    def batches(self) -> int:
        """Batches of this rank since the training began."""
        return self._trained

    @property
    def fresh(self) -> Optional[int]:
        """Samples of this rank since it met the others; None: not known."""
        return self._fresh

    def others(self, samples: Optional[int]) -> None:
        """Count what the other ranks have trained since this one met them; None: not known."""
        self._fresh = 0
        self._add(samples)

    @property
    def total(self) -> Optional[int]:
        """Samples since the training began; None: not known."""
        return self._total

    @property
    def data(self) -> Optional[int]:
        """Samples in one pass through the data; None: not known yet."""
        return self._data if self._data is not None else self._passed or None

    @property
    def size(self) -> Optional[int]:
        """Samples of the data as far as they are known: until a pass has ended those seen in it; None: not known."""
        return self.data if self.data is not None or self._total is None else self._epoch

    def batch(self, samples: object = None) -> None:
        """Count a batch of so many samples; None: not known."""
        number = None if samples is None else _params.whole("samples", samples, 0)
        self._batches += 1
        self._trained += 1
        self._fresh = _sum(self._fresh, number)
        self._add(number)

    def _add(self, number: Optional[int]) -> None:
        self._samples = _sum(self._samples, number)
        self._total = _sum(self._total, number)
        self._epoch = _sum(self._epoch, number)

    def epoch(self) -> None:
        """End a pass through the data. The longest one counts: others may have been cut."""
        if self._epoch is not None:
            self._passed = max(self._passed, self._epoch)
        self._epoch = 0

    def take(self) -> dict[str, int]:
        """Give what the bridge is told of the time since the last call."""
        told = {"batches": self._batches}
        if self._samples is not None and self._batches:
            told["samples"] = self._samples
        if self.data is not None:
            told["data_samples"] = self.data
        self._batches, self._samples = 0, 0
        return told


def _sum(known: Optional[int], number: Optional[int]) -> Optional[int]:
    return None if known is None or number is None else known + number
