#!/usr/bin/env python3
"""Write vectors.json: what each merge method must give, computed from its definition in the literature.

Whole vectors in float64 and numpy only, nothing of the Go code's way of working: no leaves, no shards, no distances
computed beforehand. Definitions and parameters are those of merge/DESIGN.md.

    python3 merge/testdata/reference.py            # writes merge/testdata/vectors.json
    python3 merge/testdata/reference.py --check    # fails when the committed file is not what this script gives

A case: method (canonical form), dtypes and shapes of the tensors (dtype: the one of all of them, else ""), weights,
contributors (each one's tensors behind each other as numbers), base (the last committed model) and state (the
optimiser's) or null, want and want_state, tolerance (relative to the larger of 1 and the wanted value). A state is, for
each run of float tensors of one type, the first moment of its elements, behind it the second one if the method has it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import pathlib
import sys

import numpy as np

ROWS = [[0, 0, 1], [1, 0, 2], [0, 1, 3], [10, 10, 100]]
TOLERANCE = {"float64": 1e-9, "float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3, "bool": 0.0}
# Weiszfeld stops at steps of 1e-6: two ways of computing it may stop a step apart.
LOOSE = {"geomedian": 1e-5}
FILE = pathlib.Path(__file__).with_name("vectors.json")


# Types.


def is_float(dtype: str) -> bool:
    """Tell whether a type takes part in distances, norms and optimisers."""
    return "float" in dtype


def as_type(values: np.ndarray, dtype: str) -> np.ndarray:
    """Round to a type: floats and integers to nearest even, half a bool is false; the result is float64 again."""
    values = np.asarray(values, np.float64)
    if dtype == "bool":
        return (values > 0.5).astype(np.float64)
    if not is_float(dtype):
        info = np.iinfo(dtype)
        return np.clip(np.rint(values), float(info.min), float(info.max))
    if dtype == "bfloat16":
        bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
        bits = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16
        return bits.astype(np.uint32).view(np.float32).astype(np.float64)
    return values.astype(dtype).astype(np.float64)


# Methods: rows are contributors, columns elements; floats marks the columns of float tensors.


def weighted_mean(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """FedAvg (McMahan et al. 2017)."""
    return w @ x / w.sum()


def weighted_median(values: np.ndarray, w: np.ndarray) -> float:
    """Give the weighted 0.5 quantile; where half of the weight ends exactly between two values, their middle."""
    order = np.argsort(values, kind="stable")
    values, cumulated = values[order], np.cumsum(w[order])
    at = int(np.searchsorted(cumulated, cumulated[-1] / 2))
    if cumulated[at] == cumulated[-1] / 2:
        return float(values[at] + values[at + 1]) / 2
    return float(values[at])


def coordmedian(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Give the weighted median of each coordinate (Yin et al. 2018)."""
    return np.array([weighted_median(column, w) for column in x.T])


def trimmedmean(x: np.ndarray, w: np.ndarray, share: float) -> np.ndarray:
    """Give the mean of each coordinate without this share of the weight at either end (Yin et al. 2018).

    A contributor across the border counts with what of its weight lies inside.
    """
    low, high = share * w.sum(), (1 - share) * w.sum()
    merged = []
    for column in x.T:
        order = np.argsort(column, kind="stable")
        ends = np.cumsum(w[order])
        inside = np.clip(np.minimum(ends, high) - np.maximum(ends - w[order], low), 0, None)
        merged.append(inside @ column[order] / inside.sum())
    return np.array(merged)


def geomedian(x: np.ndarray, w: np.ndarray, floats: np.ndarray) -> np.ndarray:
    """Weiszfeld from the mean, past models that it meets (Vardi and Zhang 2000); integer columns by the last shares."""
    points, shares = x[:, floats], w / w.sum()
    centre = shares @ points
    for _ in range(200):
        away = points - centre
        distances = np.linalg.norm(away, axis=1)
        met = distances < 1e-9 * (1 + np.abs(points).max())
        if met.all():
            break
        pulls = np.where(met, 0, w / np.where(met, 1, distances))
        new = pulls / pulls.sum()
        if met.any():
            # What is met holds the centre with its weight against the others' pull.
            held = min(1.0, w[met].sum() / max(float(np.linalg.norm(pulls @ away)), 1e-300))
            new = (1 - held) * new + held * shares
        moved = new @ points
        step = float(np.linalg.norm(moved - centre))
        centre, shares = moved, new
        if step < 1e-6:
            break
    return shares @ x


def squared_distances(x: np.ndarray) -> np.ndarray:
    """Give the matrix of squared Euclidean distances."""
    return ((x[:, None, :] - x[None, :, :]) ** 2).sum(axis=2)


def krum_order(x: np.ndarray, w: np.ndarray, f: int) -> list[int]:
    """Rank rows by the sum of squared distances to their n-f-2 nearest others (Blanchard et al. 2017)."""
    n = len(x)
    near = max(n - f - 2, 1)
    table = squared_distances(x)
    scores = [float(np.sort(np.delete(table[i], i))[:near].sum()) for i in range(n)]
    return sorted(range(n), key=lambda i: (scores[i], -w[i], i))


def krum(x: np.ndarray, w: np.ndarray, floats: np.ndarray, f: int) -> np.ndarray:
    """Give the best ranked model as it is."""
    return x[krum_order(x[:, floats], w, f)[0]]


def multikrum(x: np.ndarray, w: np.ndarray, floats: np.ndarray, f: int, m: int) -> np.ndarray:
    """Give the weighted mean of the m best ranked models; m = 0 stands for n-f."""
    chosen = sorted(krum_order(x[:, floats], w, f)[: m or len(x) - f])
    return weighted_mean(x[chosen], w[chosen])


def bulyan(x: np.ndarray, w: np.ndarray, floats: np.ndarray, f: int) -> np.ndarray:
    """Average, per coordinate, the n-4f nearest to the median of n-2f models chosen by Krum (El Mhamdi et al. 2018)."""
    left, chosen = list(range(len(x))), []
    while len(chosen) < len(x) - 2 * f:
        best = left[krum_order(x[np.ix_(left, np.flatnonzero(floats))], w[left], f)[0]] if len(left) > 1 else left[0]
        chosen.append(best)
        left.remove(best)
    chosen.sort()
    x, w = x[chosen], w[chosen]
    keep = len(chosen) - 2 * f
    merged = []
    for column in x.T:
        middle = np.median(column)
        nearest = sorted(range(len(column)), key=lambda i: (abs(column[i] - middle), -w[i], i))[:keep]
        merged.append(w[nearest] @ column[nearest] / w[nearest].sum())
    return np.array(merged)


def normclip(  # noqa: PLR0913 - the method's own.
    x: np.ndarray, w: np.ndarray, floats: np.ndarray, base: np.ndarray | None, factor: float, cap: float
) -> np.ndarray:
    """Give the weighted mean of updates whose norm is bounded: by cap, else by factor times their weighted median."""
    start = np.zeros(x.shape[1]) if base is None else np.where(floats, base, 0)
    norms = np.linalg.norm((x - start)[:, floats], axis=1)
    bound = cap if cap > 0 else factor * weighted_median(norms, w)
    shrink = np.array([min(1, bound / norm) if norm > 0 else 1 for norm in norms])
    clipped = start + weighted_mean(shrink[:, None] * (x - start), w)
    return np.where(floats, clipped, weighted_mean(x, w))


# Optimisers on the merged update: mean, base, state in, model and new state out.


def fedavgm(delta: np.ndarray, base: np.ndarray, state: np.ndarray, p: dict[str, float]) -> tuple[np.ndarray, ...]:
    """Server momentum (Hsu et al. 2019) on the gradient base - mean."""
    v = p["momentum"] * state[0] - delta
    return base - p["lr"] * v, np.stack([v])


def fedadam(delta: np.ndarray, base: np.ndarray, state: np.ndarray, p: dict[str, float]) -> tuple[np.ndarray, ...]:
    """FedAdam, without bias correction as in Reddi et al. 2021."""
    m = p["beta1"] * state[0] + (1 - p["beta1"]) * delta
    v = p["beta2"] * state[1] + (1 - p["beta2"]) * delta**2
    return base + p["lr"] * m / (np.sqrt(v) + p["tau"]), np.stack([m, v])


def fedyogi(delta: np.ndarray, base: np.ndarray, state: np.ndarray, p: dict[str, float]) -> tuple[np.ndarray, ...]:
    """FedYogi (Reddi et al. 2021)."""
    m = p["beta1"] * state[0] + (1 - p["beta1"]) * delta
    v = state[1] - (1 - p["beta2"]) * delta**2 * np.sign(state[1] - delta**2)
    return base + p["lr"] * m / (np.sqrt(v) + p["tau"]), np.stack([m, v])


def diloco(delta: np.ndarray, base: np.ndarray, state: np.ndarray, p: dict[str, float]) -> tuple[np.ndarray, ...]:
    """Outer Nesterov momentum (Douillard et al. 2023) on the gradient base - mean."""
    gradient = -delta
    v = p["momentum"] * state[0] + gradient
    return base - p["lr"] * (p["momentum"] * v + gradient), np.stack([v])


OPTIMISERS = {"fedavgm": (fedavgm, 1), "fedadam": (fedadam, 2), "fedyogi": (fedyogi, 2), "diloco": (diloco, 1)}


def parse(method: str) -> tuple[str, dict[str, float]]:
    """Take a canonical method apart."""
    name, _, rest = method.rstrip(")").partition("(")
    return name, {key: float(value) for key, _, value in (item.partition("=") for item in rest.split(",") if item)}


def merge(case: dict) -> tuple[np.ndarray, np.ndarray | None]:
    """Give the merged model before its last rounding, and the optimiser's new state."""
    name, p = parse(case["method"])
    w = np.array(case["weights"], np.float64)
    x = np.array(case["contributors"], np.float64)
    base = None if case["base"] is None else np.array(case["base"], np.float64)
    floats = np.concatenate([np.full(math.prod(s), is_float(d)) for d, s in zip(case["dtypes"], case["shapes"])])
    if name in OPTIMISERS:
        return optimise(case, p, weighted_mean(x, w), base)
    plain = {
        "mean": lambda: weighted_mean(x, w),
        "coordmedian": lambda: coordmedian(x, w),
        "trimmedmean": lambda: trimmedmean(x, w, p["share"]),
        "geomedian": lambda: geomedian(x, w, floats),
        "krum": lambda: krum(x, w, floats, int(p["f"])),
        "multikrum": lambda: multikrum(x, w, floats, int(p["f"]), int(p["m"])),
        "bulyan": lambda: bulyan(x, w, floats, int(p["f"])),
        "normclip": lambda: normclip(x, w, floats, base, p["factor"], p["cap"]),
    }
    return plain[name](), None


def optimise(
    case: dict, p: dict[str, float], mean: np.ndarray, base: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Step from base towards the mean as it travels, rounded; the first round takes it as it is, integers always do."""
    step, moments = OPTIMISERS[parse(case["method"])[0]]
    merged, states, at, done = [], [], 0, 0
    runs = itertools.groupby(zip(case["dtypes"], case["shapes"]), key=lambda tensor: tensor[0])
    for dtype, run in runs:
        size = sum(math.prod(shape) for _, shape in run)
        new = as_type(mean[at : at + size], dtype)
        if is_float(dtype):
            old = np.zeros((moments, size))
            if case["state"] is not None:
                old = np.array(case["state"][done : done + moments * size]).reshape(moments, size)
            kept = np.zeros((moments, size))
            if base is not None:
                new, kept = step(new - base[at : at + size], base[at : at + size], old, p)
            # The state of narrow types is float32.
            states.append(as_type(kept, "float64" if dtype == "float64" else "float32").ravel())
            done += moments * size
        merged.append(new)
        at += size
    return np.concatenate(merged), np.concatenate(states)


# Cases.


class Cases:
    """Collects cases and what they must give."""

    def __init__(self) -> None:
        """Begin with none; the random numbers are the same in all versions of numpy."""
        self.all: list[dict] = []
        self.random = np.random.RandomState(20170)

    def models(self, count: int, dtypes: list[str], shapes: list[list[int]]) -> list[list[float]]:
        """Give random models that their types hold exactly."""
        rows = []
        for _ in range(count):
            row: list[float] = []
            for dtype, shape in zip(dtypes, shapes):
                size = math.prod(shape)
                values = self.random.standard_normal(size)
                if dtype == "bool":
                    values = (values > 0).astype(np.float64)
                elif not is_float(dtype):
                    values = np.rint(np.abs(values) * 40) if dtype.startswith("u") else np.rint(values * 40)
                row.extend(as_type(values, dtype).tolist())
            rows.append(row)
        return rows

    def add(  # noqa: PLR0913 - a case has these parts.
        self,
        method: str,
        weights: list[int],
        contributors: list[list[float]],
        dtypes: list[str] | None = None,
        shapes: list[list[int]] | None = None,
        base: list[float] | None = None,
        state: list[float] | None = None,
    ) -> dict:
        """Compute a case and keep it; without dtypes it is one float32 vector."""
        dtypes = dtypes or ["float32"]
        shapes = shapes or [[len(contributors[0])]]
        case = {
            "method": method,
            "dtype": dtypes[0] if len(set(dtypes)) == 1 else "",
            "dtypes": dtypes,
            "shapes": shapes,
            "weights": weights,
            "contributors": contributors,
            "base": base,
            "state": state,
        }
        merged, new = merge(case)
        want: list[float] = []
        for dtype, shape in zip(dtypes, shapes):
            at = len(want)
            want.extend(as_type(merged[at : at + math.prod(shape)], dtype).tolist())
        case["want"] = want
        case["want_state"] = None if new is None else new.tolist()
        case["tolerance"] = max([LOOSE.get(parse(method)[0], 0.0)] + [TOLERANCE.get(d, 0.0) for d in dtypes])
        self.all.append(case)
        return case

    def rounds(self, method: str, weights: list[int], count: int, dtypes: list[str], shapes: list[list[int]]) -> None:
        """Add consecutive rounds: base and state are those of the round before."""
        before: dict = {"want": None, "want_state": None}
        for _ in range(count):
            rows = self.models(len(weights), dtypes, shapes)
            before = self.add(method, weights, rows, dtypes, shapes, before["want"], before["want_state"])


MIXED = (
    ["float32", "int64", "float64", "uint8", "bool", "bfloat16", "float16"],
    [[2, 3], [], [4], [3], [5], [3], [2]],
)
EACH = (
    "mean",
    "coordmedian",
    "trimmedmean(share=0.2)",
    "geomedian",
    "krum(f=1)",
    "multikrum(f=1,m=0)",
    "multikrum(f=1,m=3)",
    "bulyan(f=1)",
    "normclip(factor=1.5,cap=0)",
    "normclip(factor=1.5,cap=0.75)",
)
STEPS = (
    "fedavgm(lr=1,momentum=0.9)",
    "fedavgm(lr=0.5,momentum=0.5)",
    "diloco(lr=0.7,momentum=0.9)",
    "fedadam(lr=0.01,beta1=0.9,beta2=0.99,tau=0.001)",
    "fedadam(lr=0.1,beta1=0.5,beta2=0.9,tau=0.1)",
    "fedyogi(lr=0.01,beta1=0.9,beta2=0.99,tau=0.001)",
    "fedyogi(lr=0.1,beta1=0.5,beta2=0.9,tau=0.1)",
)


def build() -> list[dict]:
    """Give all cases."""
    cases = Cases()
    published(cases)
    corners(cases)
    for method in EACH:
        for weights in ([1] * 7, [5, 1, 3, 100, 2, 7, 40]):
            for dtype in ("float32", "float64", "float16", "bfloat16"):
                rows = cases.models(7, [dtype, dtype], [[3, 4], [5]])
                cases.add(method, weights, rows, [dtype, dtype], [[3, 4], [5]])
            cases.add(method, weights, cases.models(7, *MIXED), *MIXED)
    updates(cases)
    for method in STEPS:
        cases.rounds(method, [1, 1, 1], 3, ["float32", "float32"], [[2, 3], [4]])
        cases.rounds(method, [3, 1, 50], 3, ["float64"], [[6]])
        cases.rounds(method, [3, 1, 50], 3, *MIXED)
    return cases.all


def published(cases: Cases) -> None:
    """Add the rows for which spec/swarm-learning.md gives the original's results."""
    for weights in ([1, 1, 1, 1], [2, 1, 1, 1]):
        for dtype in ("float32", "float64"):
            for method in ("mean", "coordmedian", "trimmedmean(share=0.25)"):
                cases.add(method, weights, ROWS, [dtype])
            cases.add("geomedian", weights, ROWS, [dtype])


def corners(cases: Cases) -> None:
    """Add ties, outliers and small counts."""
    column = [[3.0], [1.0], [2.0], [2.0], [9.0]]
    for count in (1, 2, 3, 4, 5):
        for method in ("mean", "coordmedian", "trimmedmean(share=0.2)", "trimmedmean(share=0)"):
            cases.add(method, [1] * count, column[:count])
            cases.add(method, [2, 1, 1, 1, 1][:count], column[:count])
    cases.add("geomedian", [7], [[3.0, -1.0]])
    cases.add("geomedian", [1, 1], [[3.0, -1.0], [4.0, 1.0]])
    cases.add("geomedian", [1] * 3, [[2.0, 2.0]] * 3)
    # The mean is one of the models, the median is not, or is.
    cases.add("geomedian", [1] * 4, [[0.0, 0.0], [1.0, 0.5], [2.0, -2.0], [1.0, -0.5]])
    cases.add("geomedian", [1] * 5, [[0.0, 1.0], [1.0, 0.0], [0.0, -1.0], [3.0, 0.0], [11.0, 0.0]])
    cases.add("geomedian", [1, 1, 1, 5], [[0.0, 1.0], [1.0, 0.0], [0.0, -1.0], [3.0, 0.0]])
    for dtype in ("int8", "uint16", "int32", "int64", "bool"):
        rows = [[0, 1, 1], [1, 0, 1], [0, 1, 0], [1, 1, 0]]
        for method in ("mean", "coordmedian", "trimmedmean(share=0.25)"):
            cases.add(method, [1] * 4, rows, [dtype])
            cases.add(method, [3, 1, 1, 2], rows, [dtype])
    good = [[0.1 * i, 1 - 0.1 * i, 0.05 * i * i] for i in range(6)]
    rows = [[float(np.float32(v)) for v in row] for row in [*good, [1000.0, -1000.0, 5.0]]]
    # A heavy liar must not be chosen.
    for method in ("krum(f=1)", "krum(f=2)", "multikrum(f=1,m=0)", "multikrum(f=2,m=0)", "multikrum(f=1,m=2)",
                   "bulyan(f=1)", "krum(f=0)", "multikrum(f=0,m=0)", "bulyan(f=0)"):  # fmt: skip
        cases.add(method, [1] * 7, rows)
        cases.add(method, [1, 2, 3, 4, 5, 6, 100], rows)
    eleven = cases.models(11, ["float32"], [[8]])
    for method in ("bulyan(f=2)", "krum(f=4)", "multikrum(f=4,m=0)"):
        cases.add(method, [1] * 11, eleven)
        cases.add(method, list(range(1, 12)), eleven)
    # All alike: the heaviest, then the first, is chosen; the result is the same.
    cases.add("krum(f=1)", [1, 1, 9, 9, 1], [[1.0, 2.0]] * 5)
    # Two pairs of twins and one between: equal scores go to the heavier one.
    cases.add("krum(f=1)", [1, 5, 1, 2, 1], [[0.0], [4.0], [0.0], [4.0], [2.0]])


def updates(cases: Cases) -> None:
    """Add bounded updates around a committed model."""
    for dtypes, shapes in ((["float32"], [[6]]), (["float64"], [[2, 3]]), MIXED):
        base = cases.models(1, dtypes, shapes)[0]
        for method in ("normclip(factor=1.5,cap=0)", "normclip(factor=1,cap=0)", "normclip(factor=1.5,cap=0.5)"):
            rows = cases.models(5, dtypes, shapes)
            at = 0
            for dtype, shape in zip(dtypes, shapes):
                if is_float(dtype):
                    for row in rows[2], rows[4]:  # Far away, and exactly where the base is.
                        for k in range(at, at + math.prod(shape)):
                            row[k] = base[k] if row is rows[4] else float(as_type(np.array([row[k] * 8]), dtype)[0])
                at += math.prod(shape)
            cases.add(method, [1] * 5, rows, dtypes, shapes, base)
            cases.add(method, [9, 1, 4, 1, 2], rows, dtypes, shapes, base)


def text(cases: list[dict]) -> str:
    """Give the file's content, one case a line."""
    return "[\n" + ",\n".join(json.dumps(case, allow_nan=False, separators=(",", ":")) for case in cases) + "\n]\n"


def same(a: object, b: object) -> bool:
    """Compare deeply; numbers to 1e-12, since libraries of mathematics differ in the last bit."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-12)
    return a == b


def main() -> int:
    """Write or check the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare the committed file instead of writing it")
    options = parser.parse_args()
    cases = build()
    if not options.check:
        FILE.write_text(text(cases))
        return 0
    for number, (have, want) in enumerate(zip(json.loads(FILE.read_text()), cases)):
        if not same(have, want):
            print(f"{FILE}: case {number}, {want['method']}, differs: run {__file__}", file=sys.stderr)
            return 1
    if len(json.loads(FILE.read_text())) != len(cases):
        print(f"{FILE}: has another number of cases: run {__file__}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
