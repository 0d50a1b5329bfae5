"""How ranks compare their weights, of which they send each other a few sums.

After a merge all ranks have equal bits, and then they get equal gradients, averaged. But processors of different kinds
round an optimizer's arithmetic differently. So ranks that train together differ by rounding: a weight w is off by about
w·eps, once, where its type is coarse, and by about w·eps32 for each batch, of either sign, since the arithmetic is that
of float32 at least and shows in a coarser type only where it crosses the middle between two values. The variance of
that difference is taken to be, after n batches,

    w²·eps·(eps + n·eps32)

while ranks that train apart differ by what their batches have taught them. Weights are compared 64 at a time: such a
chunk by its direction and by the logarithm of its length, both divided by its relative rounding. So small weights count
as much as large ones, and one that happens to be almost zero does not count alone. Each of the sums adds up all of that
with signs that are as good as random: the mean square of what they differ by is the square of what all chunks do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from swarmlearning.layout import Array

# Elements of each parameter that are compared.
SAMPLED = 256
SUMS = 8
CHUNK = 64
# Ranks differ if that is more than so many times what rounding alone makes of it.
MARGIN = 4.0
# eps of the types, and the smallest value that has all digits. float64 is compared as float32.
_EPS32 = 2.0**-23
_TYPES = {
    "float64": (_EPS32, 2.0**-126),
    "float32": (_EPS32, 2.0**-126),
    "bfloat16": (2.0**-7, 2.0**-126),
    "float16": (2.0**-10, 2.0**-14),
}


def stride(elements: int) -> int:
    """Give which elements of a parameter are compared: every so manieth, up to SAMPLED ones."""
    return max(1, elements // SAMPLED)


def sums(weights: Iterable[tuple[str, Array]], batches: int) -> Array:
    """Give the sums of weights, which are of the types named, after so many batches since they were equal.

    They are in units of what rounding changes them by. What is no float is not trained, and left out.
    """
    kinds: dict[str, list[Array]] = {}
    for dtype, values in weights:
        if dtype in _TYPES:
            kinds.setdefault(dtype, []).append(values.astype(np.float64))
    # The same signs on every rank, whatever numpy it has.
    signs, total, chunks = np.random.RandomState(0), np.zeros(SUMS), 0
    for dtype, parts in kinds.items():
        eps, smallest = _TYPES[dtype]
        flat = np.concatenate(parts)
        # The last chunk is filled up with the first weights again.
        rows = np.resize(flat, (-(-flat.size // CHUNK), CHUNK))
        with np.errstate(invalid="ignore"):
            lengths = np.sqrt((np.maximum(np.abs(rows), smallest) ** 2).sum(axis=1, keepdims=True))
            seen = np.hstack((rows / lengths, np.log(lengths))) / math.sqrt(eps * (eps + batches * _EPS32))
        bits = np.frombuffer(signs.bytes(seen.size), np.uint8).reshape(seen.shape)
        total += [np.where(bits & 1 << number, seen, -seen).sum() for number in range(SUMS)]
        chunks += len(rows)
    return total / math.sqrt(max(chunks, 1))


def differs(rows: Sequence[Sequence[int]]) -> int:
    """Give the first rank whose sums, as the bits of each rank's, say that it trains apart from rank 0; 0 for none.

    Where rank 0's are not finite, neither are its weights, and the merge says so.
    """
    found = np.array(rows, np.int64).view(np.float64)
    with np.errstate(invalid="ignore"):
        apart = ~(np.sqrt(((found - found[0]) ** 2).mean(axis=1)) <= MARGIN)
    return int(apart.argmax()) if np.isfinite(found[0]).all() else 0
