#!/usr/bin/env python3
"""Measure what learning rate, interval, weights and normalisation do to a merged model.

    python3 docs/experiments/merging.py

trains in real swarms of three peers (bin/swarmctl local run), one after the other, with three seeds, and writes
merging.json beside this file. From that it makes tables of docs/reference/merging.md; --draw makes these alone. It
needs PyTorch, scikit-learn and `make`.

rate     label-skewed digits, a dense network, 192 batches each: learning rate and syncFrequency
norm     label-skewed digits, a convolutional network, 192 batches each: no normalisation, or one kind of it
weights  IID digits of which the peers have 8, 32 and 60 %, a dense network, 64 batches each: equal weights, and weights
         by images
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile

import page
import trials

RESULTS = trials.HERE / "merging.json"
RATES, INTERVALS = ("0.05", "0.2", "0.8"), ("2", "16", "64")
NORMS = {
    "none": {"NET": "cnn"},
    "BatchNorm, all of it merged": {"NET": "batchnorm"},
    "BatchNorm, its running statistics local": {"NET": "batchnorm", "LOCAL": "*.running_*,*.num_batches_tracked"},
    "GroupNorm": {"NET": "groupnorm"},
}
WEIGHTS = {"1 : 1 : 1": ("1", "1", "1"), "8 : 32 : 60": ("8", "32", "60")}


def settings() -> list[tuple[str, str, dict[str, str]]]:
    """Give what is trained: the table, the row in it, and the program's environment."""
    all_ = [("rate", f"{lr} {k}", {"CASE": "skewed", "LR": lr, "SYNC": k}) for lr in RATES for k in INTERVALS]
    all_ += [("norm", name, {"CASE": "skewed", "SYNC": "4", **env}) for name, env in NORMS.items()]
    # Each peer takes its own from the list.
    all_ += [("weights", name, {"CASE": "unequal", "LR": "0.2", "WEIGHTS": ",".join(w)}) for name, w in WEIGHTS.items()]
    return all_


def measure(swarmctl: pathlib.Path, seeds: int, into: pathlib.Path) -> None:
    """Train everything that the results lack, and write it there run by run."""
    found = trials.stored(into)
    there = {(one["table"], one["row"], one["seed"]) for one in found}
    for seed in range(1, seeds + 1):
        with tempfile.TemporaryDirectory(prefix="experiment-data-") as data:
            trials.shards(pathlib.Path(data), seed)
            for table, row, env in settings():
                if (table, row, seed) not in there:
                    result = trials.train(swarmctl, pathlib.Path(data), {**env, "SEED": seed})
                    del result["curve"]
                    found.append({"table": table, "row": row, "seed": seed, **result})
                    trials.store(into, found)


def main() -> None:
    """Measure, then write the tables."""
    parser = argparse.ArgumentParser(
        description="what learning rate, interval, weights and normalisation do to a merged model"
    )
    parser.add_argument("--swarmctl", type=pathlib.Path, default=trials.ROOT / "bin" / "swarmctl")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--results", type=pathlib.Path, default=RESULTS, help="what is there already is not trained again"
    )
    parser.add_argument("--draw", action="store_true", help="train nothing")
    args = parser.parse_args()
    if not args.draw:
        measure(args.swarmctl.resolve(), args.seeds, args.results)
    page.write_tables(trials.stored(args.results), RATES, INTERVALS, list(NORMS), list(WEIGHTS))


if __name__ == "__main__":
    main()
