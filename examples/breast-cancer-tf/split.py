#!/usr/bin/env python3
"""Divide scikit-learn's breast cancer data among peers, each of which has a share and a mix of diagnoses of its own.

Writes OUT/0/train.npz, OUT/1/train.npz, ..., and the test set that all share as OUT/test.npz and beside each shard.
"""

from __future__ import annotations

import argparse
import pathlib

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

MAX_PEERS = 16
# The first peer has so many times the last one's malignant cases, and the other way round.
SKEW = 30


def main() -> None:
    """Write the shards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", type=int, default=2)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if not 2 <= args.peers <= MAX_PEERS:
        parser.error(f"--peers must be 2 to {MAX_PEERS}")

    data = load_breast_cancer()
    x, y = data.data.astype(np.float32), data.target.astype(np.float32)
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.25, stratify=y, random_state=args.seed)

    args.out.mkdir(parents=True, exist_ok=True)
    np.savez(args.out / "test.npz", x=x_test, y=y_test)
    for peer, mine in enumerate(shards(y, args.peers, args.seed)):
        folder = args.out / str(peer)
        folder.mkdir(exist_ok=True)
        np.savez(folder / "train.npz", x=x[mine], y=y[mine])
        np.savez(folder / "test.npz", x=x_test, y=y_test)
        print(f"peer {peer}: {len(mine)} patients, {int(y[mine].sum())} benign")


def shards(y: np.ndarray, peers: int, seed: int) -> list[np.ndarray]:
    """Give each peer's rows: the first peers have most of the malignant cases, the last ones most of the benign."""
    shuffle = np.random.default_rng(seed)
    parts: list[list[np.ndarray]] = [[] for _ in range(peers)]
    for label in (0, 1):
        rows = shuffle.permutation(np.flatnonzero(y == label))
        shares = np.geomspace(SKEW, 1, peers) if label == 0 else np.geomspace(1, SKEW, peers)
        edges = np.round(np.cumsum(shares) / shares.sum() * len(rows)).astype(int)
        for part, piece in zip(parts, np.split(rows, edges[:-1])):
            part.append(piece)
    return [np.concatenate(part) for part in parts]


if __name__ == "__main__":
    main()
