"""As the pages of release 2.0 have it, Keras 2: adaptive sync, a functional model, weights in HDF5."""

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
    inputs = tf.keras.Input(shape=(8,))
    hidden = tf.keras.layers.Dense(16, activation="relu")(inputs)
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(2)(hidden))
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
    swarmCallback = SwarmCallback(
        syncFrequency=2, minPeers=min_peers, useAdaptiveSync=True, adsValData=(x_train, y_train), adsValBatchSize=16, nodeWeightage=10
    )
    model.fit(x_train, y_train, batch_size=16, epochs=max_epochs, verbose=2, callbacks=[swarmCallback], validation_data=(x_train, y_train))
    model.save_weights(os.path.join(modelDir, "saved_model.h5"))


if __name__ == "__main__":
    main()
