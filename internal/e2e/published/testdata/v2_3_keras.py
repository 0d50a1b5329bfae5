"""As the pages of release 2.3 have it, Keras: it runs with Keras 2 and 3."""

import os

import numpy as np
import tensorflow as tf
from swarmlearning.tf import SwarmCallback

default_max_epochs = 2
default_min_peers = 2


def main():
    dataDir = os.getenv("DATA_DIR", "/platform/data")
    modelDir = os.getenv("MODEL_DIR", "/platform/model")
    max_epochs = int(os.getenv("MAX_EPOCHS", str(default_max_epochs)))
    min_peers = int(os.getenv("MIN_PEERS", str(default_min_peers)))
    rows = np.loadtxt(os.path.join(dataDir, "data.csv"), delimiter=",", dtype=np.float32)
    x_train, y_train = rows[:, :-1], rows[:, -1]
    model = tf.keras.models.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(2)])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=tf.keras.optimizers.SGD(learning_rate=0.1), loss=loss, metrics=["accuracy"])
    swarmCallback = SwarmCallback(
        syncFrequency=2,
        minPeers=min_peers,
        nodeWeightage=25,
        adsValData=(x_train, y_train),
        adsValBatchSize=16,
        mergeMethod="geomedian",
        totalEpochs=max_epochs,
    )
    model.fit(x_train, y_train, batch_size=16, epochs=max_epochs, verbose=2, callbacks=[swarmCallback])
    model.save(os.path.join(modelDir, "saved_model.keras"))


if __name__ == "__main__":
    main()
