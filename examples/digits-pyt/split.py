#!/usr/bin/env python3
"""Divide scikit-learn's digits among peers, each of which sees only some of the ten classes.

Writes OUT/0/train.npz, OUT/1/train.npz, ..., and the test set that all share as OUT/test.npz and beside each shard.
"""

from __future__ import annotations

import argparse
import pathlib

try:
    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
except ModuleNotFoundError as missing:
    raise SystemExit(
        f"split.py: {missing}: install it (Debian: apt install python3-sklearn), or use the image, after make image: "
        'docker run --rm -u $(id -u) -v "$PWD:$PWD" -w "$PWD" swarm-ml-pyt python3 examples/digits-pyt/split.py ...'
    ) from None

CLASSES = 10


def main() -> None:
    """Write the shards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if not 2 <= args.peers <= CLASSES:
        parser.error(f"--peers must be 2 to {CLASSES}")

    data = load_digits()
    x = (data.data / 16.0).astype(np.float32)
    y = data.target.astype(np.int64)
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.25, stratify=y, random_state=args.seed)

    args.out.mkdir(parents=True, exist_ok=True)
    np.savez(args.out / "test.npz", x=x_test, y=y_test)
    for peer, mine in enumerate(shards(y, args.peers, args.seed)):
        folder = args.out / str(peer)
        folder.mkdir(exist_ok=True)
        np.savez(folder / "train.npz", x=x[mine], y=y[mine])
        np.savez(folder / "test.npz", x=x_test, y=y_test)
        print(f"peer {peer}: {len(mine)} images of the digits {sorted(set(y[mine].tolist()))}")


def shards(y: np.ndarray, peers: int, seed: int) -> list[np.ndarray]:
    """Give each peer's rows: a run of classes each, neighbours share the class where they meet."""
    # For 3 peers: 0-3, 3-6, 6-9.
    edges = [round(peer * (CLASSES - 1) / peers) for peer in range(peers + 1)]
    shuffle = np.random.default_rng(seed)
    parts: list[list[np.ndarray]] = [[] for _ in range(peers)]
    for digit in range(CLASSES):
        owners = [peer for peer in range(peers) if edges[peer] <= digit <= edges[peer + 1]]
        rows = shuffle.permutation(np.flatnonzero(y == digit))
        for owner, part in zip(owners, np.array_split(rows, len(owners))):
            parts[owner].append(part)
    return [np.concatenate(part) for part in parts]


if __name__ == "__main__":
    main()
