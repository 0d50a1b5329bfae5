#!/usr/bin/env python3
"""Train a small Keras network to tell malignant from benign tumours, alone or in a swarm.

Reads DATA_DIR/train.npz and DATA_DIR/test.npz (split.py makes them), writes MODEL_DIR/model.weights.h5. The lines
marked "swarm" are all that a program of your own needs.
"""

from __future__ import annotations

import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow reads it when it is imported.

import numpy as np
import tensorflow as tf

from swarmlearning.tf import SwarmCallback  # swarm

BATCH = 16
SYNC_FREQUENCY = 8
# Orders of magnitude of the features, which every peer knows without looking at the others' patients.
SCALE = np.array(
    [14, 19, 92, 650, 0.1, 0.1, 0.1, 0.05, 0.18, 0.06, 0.4, 1.2, 2.9, 40, 0.007, 0.025, 0.03, 0.012, 0.02, 0.004]
    + [16, 26, 107, 880, 0.13, 0.25, 0.27, 0.11, 0.29, 0.08],
    dtype=np.float32,
)


def load(path: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """Load features, scaled, and labels."""
    with np.load(path) as data:
        return data["x"] / SCALE - 1, data["y"]


def main() -> None:
    """Train, merging with the peers as the callback says."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.keras.utils.set_random_seed(int(os.environ.get("SEED", "1")))
    data_dir = pathlib.Path(os.environ.get("DATA_DIR", "data"))
    model_dir = pathlib.Path(os.environ.get("MODEL_DIR", "model"))
    epochs = int(os.environ.get("MAX_EPOCHS", "8"))

    test_path = data_dir / "test.npz"
    x_test, y_test = load(test_path if test_path.exists() else data_dir.parent / "test.npz")
    x, y = load(data_dir / "train.npz")

    model = tf.keras.Sequential(
        [
            tf.keras.Input((x.shape[1],)),
            tf.keras.layers.Dense(16, activation="relu"),
            tf.keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(tf.keras.optimizers.SGD(0.3), loss="binary_crossentropy", metrics=["accuracy"])

    # swarm: merge the model with the peers every syncFrequency batches. The last two arguments are optional: with them
    # the merged model is measured, so that loss and accuracy are shown while it trains.
    swarm = SwarmCallback(
        syncFrequency=SYNC_FREQUENCY,
        minPeers=int(os.environ.get("MIN_PEERS", "2")),
        totalEpochs=epochs,
        checkinModelOnTrainEnd="snapshot",  # what only this peer has seen stays in when it ends before the others
        adsValData=(x_test, y_test),
        adsValBatchSize=256,
    )
    model.fit(x, y, batch_size=BATCH, epochs=epochs, verbose=0, callbacks=[swarm])  # swarm: the callback

    model_dir.mkdir(parents=True, exist_ok=True)
    model.save_weights(model_dir / "model.weights.h5")
    _, accuracy = model.evaluate(x_test, y_test, batch_size=256, verbose=0)
    print(f"final test accuracy: {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
