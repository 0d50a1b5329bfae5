"""Training that goes on while a merge travels: the merged model plus what was learnt meanwhile.

At a merge's time a peer hands in S, its weights, and trains on. When the merged model M has come and the weights are
W, it goes on from M + (W - S): what the others learnt comes one interval late, what it learnt itself stays. The rule is
that of CoCoD-SGD (Shen et al. 2019, arXiv:1906.12043). Delayed Gradient Averaging (Zhu et al., NeurIPS 2021), the
delayed averaging of hivemind's optimizer and DiLoCo with overlapped communication (Douillard et al. 2025,
arXiv:2501.18512; Kale et al. 2025, arXiv:2502.12996) hide the exchange in the same way.

That is for parameters. A sum could take a statistic out of its range: a running variance that fell by more than the
merged one has would be negative. So a float that is no parameter, and has one sign in S, W and M, comes no nearer to
zero than W or M is. An integer or boolean that took M's value each time would stand still, since that is what is handed
in next: one that has changed since S stays as it is, and every other is M's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from swarmlearning.layout import Array

# Elements of 16-bit floats that are widened at a time.
_BLOCK = 1 << 18


def carry(dtype: str, learned: bool, sent: Array, merged: Array, present: Array) -> None:
    """Turn sent, one tensor's values S in storage_dtype, into what the training goes on from, in place.

    merged and present are M and W, of the same shape. learned: training adds to the tensor, as to a parameter.
    float32 and float64 are computed in their own type, shorter floats in float32: W - S is rounded to it, then M plus
    that, then once more to the shorter type. What is too large becomes infinite, without a warning.
    """
    if not sent.size:
        return
    if "float" not in dtype:
        same = present == sent
        np.copyto(sent, present, casting="no")
        np.copyto(sent, merged, where=same, casting="no")
        return
    with np.errstate(all="ignore"):
        if dtype not in ("float32", "float64"):
            _carry_short(dtype, learned, sent.reshape(-1), merged.reshape(-1), present.reshape(-1))
        elif learned:
            np.subtract(present, sent, out=sent)
            np.add(merged, sent, out=sent)
        else:
            np.copyto(sent, _statistic(sent, merged, present))


def _carry_short(dtype: str, learned: bool, sent: Array, merged: Array, present: Array) -> None:
    for start in range(0, sent.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        s, m, w = (_wide(dtype, array[part]) for array in (sent, merged, present))
        sent[part] = _short(dtype, m + (w - s) if learned else _statistic(s, m, w))


def _statistic(sent: Array, merged: Array, present: Array) -> Array:
    """Give the sum, but no nearer to zero than the nearer one of M and W where all three lie on one side of it."""
    total: Array = merged + (present - sent)
    lowest, highest = (extreme(extreme(merged, present), sent) for extreme in (np.minimum, np.maximum))
    total = np.where(lowest >= 0, np.maximum(total, np.minimum(merged, present)), total)
    return np.where(highest <= 0, np.minimum(total, np.maximum(merged, present)), total)


def _wide(dtype: str, array: Array) -> Array:
    """Give 16-bit floats as float32, which holds each of them exactly."""
    if dtype == "bfloat16":
        # Its bits are a float32's upper half.
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32)


def _short(dtype: str, array: Array) -> Array:
    """Round float32 to 16 bits, a tie to the even neighbour."""
    if dtype != "bfloat16":
        return array.astype(np.float16)
    bits = array.view(np.uint32)
    rounded: Array = ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype(np.uint16)
    # Rounding could carry a NaN's bits over into a number.
    nan: Any = np.uint16(0x7FC0)
    return np.where(np.isnan(array), nan, rounded)
