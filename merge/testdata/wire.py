"""Vectors for 16-bit differences on the wire, by numpy alone: its float16, and bfloat16 by choosing the nearest of all.

    python3 merge/testdata/wire.py            # writes merge/testdata/wire.json
    python3 merge/testdata/wire.py --check    # fails when the committed file is not what this script gives

For each wire type the bits, as integers, of: models, the last committed model, what travels, and what it stands for.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys

import numpy as np

FILE = pathlib.Path(__file__).with_name("wire.json")
MOST = np.finfo(np.float32).max


def numbers(wire: str) -> np.ndarray:
    """Give the value of each of the 65536 codes, in float64."""
    codes = np.arange(1 << 16, dtype=np.uint32)
    if wire == "float16":
        return codes.astype(np.uint16).view(np.float16).astype(np.float64)
    with np.errstate(invalid="ignore"):
        return (codes << 16).view(np.float32).astype(np.float64)


def encode(wire: str, x: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Give the code of the nearest finite number to each float32 difference, the even of two; NaN and infinity stay."""
    values = numbers(wire)
    finite = np.flatnonzero(np.isfinite(values) & ~(np.signbit(values) & (values == 0)))
    finite = finite[np.argsort(values[finite], kind="stable")]
    out = []
    for a, b in zip(x, base):
        if not np.isfinite(a):
            infinite = 0x7C00 if wire == "float16" else 0x7F80
            quiet = infinite | (infinite >> 1 & ~infinite)
            sign = int(np.signbit(a)) << 15
            out.append(sign | (quiet if np.isnan(a) else infinite))
            continue
        with np.errstate(over="ignore"):
            d = np.float64(np.float32(a - b))
        d = np.clip(d, values[finite[0]], values[finite[-1]])
        at = int(np.searchsorted(values[finite], d))
        near = finite[max(at - 1, 0) : at + 1]
        code = int(min(near, key=lambda c: (abs(values[c] - d), int(c) & 1)))
        if code == 0 and np.signbit(d):
            code = 0x8000
        out.append(code)
    return np.array(out, np.uint16)


def decode(wire: str, code: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Add in float32; a sum of finite numbers stays finite, and -0 becomes 0."""
    d = numbers(wire)[code].astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        y = base + d + np.float32(0)
    return np.where(np.isfinite(d), np.clip(y, -MOST, MOST), d).astype(np.float32)


def pairs() -> tuple[np.ndarray, np.ndarray]:
    """Give models and bases: training's updates, all magnitudes, ties, ends of the ranges, what is not finite."""
    rng = np.random.default_rng(11)
    base = [rng.normal(0, 0.1, 64), np.zeros(96), rng.normal(0, 1, 32) * 10.0 ** rng.integers(-30, 30, 32)]
    x = [
        base[0] + rng.normal(0, 1, 64) * 10.0 ** rng.integers(-7, 0, 64),
        rng.normal(0, 1, 96) * 2.0 ** rng.integers(-150, 127, 96),
        base[2] * rng.normal(1, 0.01, 32),
    ]
    ties = [(1 + (2 * k + 1) / 2**bits) * 2.0**e for k in range(4) for bits in (8, 11) for e in (-30, -20, -14, 0, 9)]
    ends = [65504, 65519.99, 65520, 1e30, float(MOST), 3.3895e38, 2.0**-24, 2.0**-25, 3 * 2.0**-25, 1e-45, 0.0]
    odd = [float("inf"), float("nan")]
    x.append(np.array([sign * v for v in [*ties, *ends, *odd] for sign in (1, -1)]))
    base.append(np.zeros(len(x[-1])))
    x.append(np.array([float(MOST), float(MOST), -float(MOST), 65504.0, float("nan")]))
    base.append(np.array([-float(MOST), 0.5e38, 0.5e38, -65504.0, 1.0]))
    return np.concatenate(x).astype(np.float32), np.concatenate(base).astype(np.float32)


def build() -> dict:
    """Give the content of the file."""
    x, base = pairs()
    out = {}
    for wire in ("bfloat16", "float16"):
        code = encode(wire, x, base)
        y = decode(wire, code, base)
        bits = {"x": x.view(np.uint32), "base": base.view(np.uint32), "code": code, "y": y.view(np.uint32)}
        out[wire] = {key: value.tolist() for key, value in bits.items()}
    return out


def main() -> int:
    """Write or check the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare the committed file instead of writing it")
    options = parser.parse_args()
    text = json.dumps(build(), separators=(",", ":")) + "\n"
    if not options.check:
        FILE.write_text(text)
    elif FILE.read_text() != text:
        print(f"{FILE}: differs: run {__file__}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
