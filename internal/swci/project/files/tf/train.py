"""Train a small Keras network in a swarm. The lines marked "swarm" are what makes the program a peer.

./run.sh runs it at three peers; without a swarm: SWARM_LOOPBACK=true, with swarmlearning installed.
"""

import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow reads it when it is imported.

import tensorflow as tf

from data import CLASSES, FEATURES, load

try:
    from swarmlearning.tf import SwarmCallback  # swarm
except ModuleNotFoundError as missing:
    if missing.name != "swarmlearning":
        raise
    raise SystemExit("train.py: start it with ./run.sh, which brings the swarmlearning package along") from None

EPOCHS, BATCH, SYNC_FREQUENCY = 10, 32, 4


def main():
    tf.keras.utils.set_random_seed(1)
    (x, y), (x_test, y_test) = load()
    model = tf.keras.Sequential(
        [
            tf.keras.Input((FEATURES,)),
            tf.keras.layers.Dense(32, activation="relu"),
            tf.keras.layers.Dense(CLASSES, activation="softmax"),
        ]
    )
    model.compile(tf.keras.optimizers.SGD(0.1), loss="sparse_categorical_crossentropy", metrics=["accuracy"])

    # swarm: merge with the peers every SYNC_FREQUENCY batches; adsValData measures the merged model
    swarm = SwarmCallback(
        syncFrequency=SYNC_FREQUENCY,
        minPeers=int(os.environ.get("MIN_PEERS", "2")),
        totalEpochs=EPOCHS,
        adsValData=(x_test, y_test),
        adsValBatchSize=256,
    )
    model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=0, callbacks=[swarm])  # swarm: the callback

    model.save_weights(pathlib.Path(os.environ.get("MODEL_DIR", ".")) / "model.weights.h5")


if __name__ == "__main__":
    main()
