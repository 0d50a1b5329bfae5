#!/usr/bin/env python3
"""Measure what each check-in mode does to the final model, when a peer ends its training before the others.

    python3 docs/experiments/checkin.py

trains every case in real swarms of three peers (bin/swarmctl local run), with each mode as --checkin-default and with
five seeds, one swarm after the other, and writes checkin.json beside this file. From that it makes the pictures
docs/reference/checkin-*.svg and a table of docs/reference/merging.md; --draw makes these alone. It needs PyTorch,
scikit-learn and `make`.

iid   a dense network; each peer's images are drawn alike, but the peers have 8, 32 and 60 % of them. All train twelve
      epochs, so they end one after the other.
skew  the same network; the peers see the digits 0-3, 4-6 and 7-9. The first ends after a third of the epochs: what only
      it has seen, the others can only keep.
cnn   a convolutional network; each peer has a third of the images, and stops when the loss on images of its own has not
      fallen for three epochs. The first one gives up after its first epoch.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile

import page
import trials

RESULTS = trials.HERE / "checkin.json"
DRAWN = 1  # the seed whose merges are drawn
CASES = {"iid": {}, "skew": {}, "cnn": {"NET": "cnn", "STOP": "1"}}


def measure(swarmctl: pathlib.Path, seeds: int, cases: list[str], into: pathlib.Path) -> None:
    """Train everything that the results lack, and write it there run by run."""
    found = trials.stored(into)
    there = {(one["case"], one["mode"], one["seed"]) for one in found}
    for seed in range(1, seeds + 1):
        with tempfile.TemporaryDirectory(prefix="experiment-data-") as data:
            trials.shards(pathlib.Path(data), seed)
            for case in cases:
                for mode in page.MODES:
                    if (case, mode, seed) in there:
                        continue
                    env = {"CASE": case, "SEED": seed, **CASES[case]}
                    result = trials.train(swarmctl, pathlib.Path(data), env, "--checkin-default", mode)
                    if len(set(result["accuracy"])) != 1:
                        raise SystemExit(f"the final models of {case}, {mode}, seed {seed} differ: {result}")
                    result["accuracy"] = result["accuracy"][0]
                    if seed != DRAWN:
                        del result["curve"], result["merges"]
                    found.append({"case": case, "mode": mode, "seed": seed, **result})
                    trials.store(into, found)


def main() -> None:
    """Measure, then draw."""
    parser = argparse.ArgumentParser(description="what each check-in mode does to the final model")
    parser.add_argument("--swarmctl", type=pathlib.Path, default=trials.ROOT / "bin" / "swarmctl")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--case", action="append", choices=list(CASES), help="repeatable; all of them if none is given")
    parser.add_argument(
        "--results", type=pathlib.Path, default=RESULTS, help="what is there already is not trained again"
    )
    parser.add_argument("--draw", action="store_true", help="train nothing")
    args = parser.parse_args()
    if not args.draw:
        measure(args.swarmctl.resolve(), args.seeds, args.case or list(CASES), args.results)
    results = trials.stored(args.results)
    if {one["case"] for one in results} == set(CASES):
        page.draw(results)
    else:
        print(f"the page is left as it is: {args.results} has not all cases")


if __name__ == "__main__":
    main()
