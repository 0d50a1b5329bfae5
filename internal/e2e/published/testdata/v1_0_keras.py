"""As the pages of release 1.0 have it, Keras 2 under both its names."""

import os

import numpy as np
from keras.layers import BatchNormalization, Dense
from swarmlearning.tf import SwarmCallback
from tensorflow.keras.models import Sequential

default_max_epochs = 2
default_min_peers = 2


def main():
    dataDir = os.getenv("DATA_DIR", "/platform/swarmml/data")
    modelDir = os.getenv("MODEL_DIR", "/platform/swarmml/model")
    max_epochs = int(os.getenv("MAX_EPOCHS", str(default_max_epochs)))
    min_peers = int(os.getenv("MIN_PEERS", str(default_min_peers)))
    rows = np.loadtxt(os.path.join(dataDir, "data.csv"), delimiter=",", dtype=np.float32)
    x_train, y_train = rows[:, :-1], rows[:, -1]
    model = Sequential()
    model.add(Dense(16, activation="relu", input_dim=8))
    model.add(BatchNormalization())
    model.add(Dense(1, activation="sigmoid"))
    model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
    swarm_callback = SwarmCallback(syncFrequency=2, minPeers=min_peers, useAdaptiveSync=False, adsValData=(x_train, y_train), adsValBatchSize=16)
    model.fit(x_train, y_train, batch_size=16, epochs=max_epochs, verbose=0, callbacks=[swarm_callback])
    model.save(os.path.join(modelDir, "saved_model.h5"))


if __name__ == "__main__":
    main()
