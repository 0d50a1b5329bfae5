"""Train softmax regression in plain numpy in a swarm. The lines marked "swarm" are what makes the program a peer.

./run.sh runs it at three peers; without a swarm: SWARM_LOOPBACK=true, with swarmlearning installed.
"""

import os
import pathlib

import numpy as np

from data import CLASSES, FEATURES, load

try:
    from swarmlearning.arrays import SwarmCallback  # swarm
except ModuleNotFoundError as missing:
    if missing.name != "swarmlearning":
        raise
    raise SystemExit("train.py: start it with ./run.sh, which brings the swarmlearning package along") from None

EPOCHS, BATCH, SYNC_FREQUENCY, RATE = 10, 32, 4, 0.1


def probabilities(weights, x):
    scores = x @ weights["w"] + weights["b"]
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


def main():
    (x, y), (x_test, y_test) = load()
    weights = {"w": np.zeros((FEATURES, CLASSES), np.float32), "b": np.zeros(CLASSES, np.float32)}

    def evaluate():
        found = probabilities(weights, x_test)
        right = np.maximum(found[np.arange(len(y_test)), y_test], 1e-12)
        return float(-np.log(right).mean()), float((found.argmax(axis=1) == y_test).mean())

    # swarm: merge with the peers every SYNC_FREQUENCY batches; evaluate measures the merged model
    swarm = SwarmCallback(
        syncFrequency=SYNC_FREQUENCY,
        minPeers=int(os.environ.get("MIN_PEERS", "2")),
        weights=weights,
        totalEpochs=EPOCHS,
        evaluate=evaluate,
    )
    shuffle = np.random.default_rng(1)
    swarm.on_train_begin()  # swarm: wait for the peers, start from one common model
    for _ in range(EPOCHS):
        order = shuffle.permutation(len(x))
        for start in range(0, len(x), BATCH):
            rows = order[start : start + BATCH]
            error = probabilities(weights, x[rows])
            error[np.arange(len(rows)), y[rows]] -= 1
            weights["w"] -= RATE * x[rows].T @ error / len(rows)
            weights["b"] -= RATE * error.mean(axis=0)
            swarm.on_batch_end()  # swarm: merge when it is time
        swarm.on_epoch_end()  # swarm: measure and report
    swarm.on_train_end()  # swarm: wait for the peers, load the final model

    np.savez(pathlib.Path(os.environ.get("MODEL_DIR", ".")) / "model.npz", **weights)


if __name__ == "__main__":
    main()
