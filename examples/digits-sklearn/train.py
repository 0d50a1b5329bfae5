#!/usr/bin/env python3
"""Train scikit-learn's logistic regression on handwritten digits in a swarm, where no peer sees all ten digits.

Reads DATA_DIR/train.npz and DATA_DIR/test.npz (../digits-pyt/split.py makes them), writes MODEL_DIR/model.joblib. The
lines marked "swarm" are all that a program of your own needs.
"""

from __future__ import annotations

import os
import pathlib

import joblib
import numpy as np
from sklearn.linear_model import SGDClassifier

from swarmlearning.sklearn import SwarmCallback  # swarm

BATCH = 32
SYNC_FREQUENCY = 4
CLASSES = np.arange(10)


def load(path: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """Load images and labels."""
    with np.load(path) as data:
        return data["x"].astype(np.float64), data["y"]


def main() -> None:
    """Train, merging with the peers as the callback says."""
    data_dir = pathlib.Path(os.environ.get("DATA_DIR", "data"))
    model_dir = pathlib.Path(os.environ.get("MODEL_DIR", "model"))
    epochs = int(os.environ.get("MAX_EPOCHS", "20"))
    x, y = load(data_dir / "train.npz")
    test_path = data_dir / "test.npz"
    test = load(test_path if test_path.exists() else data_dir.parent / "test.npz")

    model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.05, random_state=1)
    # swarm: all classes, also those that only others have, so that the coefficients are of one shape.
    model.partial_fit(x[:1], y[:1], classes=CLASSES)
    swarm = SwarmCallback(
        syncFrequency=SYNC_FREQUENCY,
        minPeers=int(os.environ.get("MIN_PEERS", "2")),
        model=model,
        totalEpochs=epochs,
        checkinModelOnTrainEnd="snapshot",  # what only this peer has seen stays in when it ends before the others
        adsValData=test,
    )
    swarm.on_train_begin()  # swarm: wait for the peers, start from one common model
    shuffle = np.random.default_rng(int(os.environ.get("SEED", "1")))
    for _ in range(epochs):
        order = shuffle.permutation(len(x))
        for start in range(0, len(x) - BATCH + 1, BATCH):
            rows = order[start : start + BATCH]
            model.partial_fit(x[rows], y[rows])
            swarm.on_batch_end()  # swarm: merge when it is time
        swarm.on_epoch_end()  # swarm: measure and report
        if swarm.training_over:  # swarm: the others have finished, what is trained from here on is dropped
            break
    swarm.on_train_end()  # swarm: wait for the peers, load the final model

    model_dir.mkdir(parents=True, exist_ok=True)
    joblib.dump(model, model_dir / "model.joblib")
    print(f"final test accuracy: {model.score(*test):.4f}", flush=True)


if __name__ == "__main__":
    main()
