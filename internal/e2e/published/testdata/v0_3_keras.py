"""As the pages of release 0.3 have it, Keras 2: one callback for all frameworks, a tuple as val_data, a folder as saved model."""

import os

import numpy as np
import tensorflow as tf
from swarm import SwarmCallback

default_max_epochs = 2
default_min_peers = 2


def main():
    dataDir = os.getenv("DATA_DIR", "./data")
    modelDir = os.getenv("MODEL_DIR", "./model")
    max_epochs = int(os.getenv("MAX_EPOCHS", str(default_max_epochs)))
    min_peers = int(os.getenv("MIN_PEERS", str(default_min_peers)))
    rows = np.loadtxt(os.path.join(dataDir, "data.csv"), delimiter=",", dtype=np.float32)
    x_train, y_train = rows[:, :-1], rows[:, -1]
    model = tf.keras.models.Sequential(
        [
            tf.keras.layers.Dense(16, activation="relu", input_shape=(8,)),
            tf.keras.layers.Dropout(0.2),
            tf.keras.layers.Dense(2, activation="softmax"),
        ]
    )
    model.compile(optimizer=tf.keras.optimizers.Adam(lr=0.001), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    swarm_callback = SwarmCallback(sync_interval=2, min_peers=min_peers, val_data=(x_train, y_train), val_batch_size=16, model_name="net")
    model.fit(x_train, y_train, batch_size=16, epochs=max_epochs, verbose=1, callbacks=[swarm_callback])
    model.save(os.path.join(modelDir, "saved_model"))


if __name__ == "__main__":
    main()
