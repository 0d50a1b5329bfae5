"""As the pages after release 2.3 have it, scikit-learn: a linear model that is fitted in parts."""

import os

import joblib
import numpy as np
from sklearn.linear_model import SGDClassifier
from swarmlearning.sklearn import SwarmCallback


def main():
    dataDir = os.getenv("DATA_DIR", "/platform/data")
    modelDir = os.getenv("MODEL_DIR", "/platform/model")
    min_peers = int(os.getenv("MIN_PEERS", "2"))
    max_epochs = int(os.getenv("MAX_EPOCHS", "2"))
    rows = np.loadtxt(os.path.join(dataDir, "data.csv"), delimiter=",")
    x, y = rows[:, :-1], rows[:, -1]
    model = SGDClassifier(loss="log_loss")
    model.partial_fit(x[:1], y[:1], classes=[0, 1])
    swarmCallback = SwarmCallback(syncFrequency=2, minPeers=min_peers, model=model, totalEpochs=max_epochs, adsValData=(x, y))
    swarmCallback.on_train_begin()
    for epoch in range(max_epochs):
        for start in range(0, len(x), 16):
            model.partial_fit(x[start : start + 16], y[start : start + 16])
            swarmCallback.on_batch_end()
        swarmCallback.on_epoch_end(epoch)
    swarmCallback.on_train_end()
    joblib.dump(model, os.path.join(modelDir, "saved_model.joblib"))


if __name__ == "__main__":
    main()
