"""Train scikit-learn's logistic regression in a swarm. The lines marked "swarm" are what makes the program a peer.

./run.sh runs it at three peers; without a swarm: SWARM_LOOPBACK=true, with swarmlearning installed.
"""

import os
import pathlib

import joblib
import numpy as np
from sklearn.linear_model import SGDClassifier

from data import CLASSES, load

try:
    from swarmlearning.sklearn import SwarmCallback  # swarm
except ModuleNotFoundError as missing:
    if missing.name != "swarmlearning":
        raise
    raise SystemExit("train.py: start it with ./run.sh, which brings the swarmlearning package along") from None

EPOCHS, BATCH, SYNC_FREQUENCY = 10, 32, 4


def main():
    (x, y), test = load()
    model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.02, random_state=1)
    # swarm: once, with all classes, also those that only others have, so that the coefficients are of one shape
    model.partial_fit(x[:1], y[:1], classes=np.arange(CLASSES))

    # swarm: merge with the peers every SYNC_FREQUENCY batches; adsValData measures the merged model
    swarm = SwarmCallback(
        syncFrequency=SYNC_FREQUENCY,
        minPeers=int(os.environ.get("MIN_PEERS", "2")),
        model=model,
        totalEpochs=EPOCHS,
        adsValData=test,
    )
    shuffle = np.random.default_rng(1)
    swarm.on_train_begin()  # swarm: wait for the peers, start from one common model
    for _ in range(EPOCHS):
        order = shuffle.permutation(len(x))
        for start in range(0, len(x), BATCH):
            rows = order[start : start + BATCH]
            model.partial_fit(x[rows], y[rows])
            swarm.on_batch_end()  # swarm: merge when it is time
        swarm.on_epoch_end()  # swarm: measure and report
    swarm.on_train_end()  # swarm: wait for the peers, load the final model

    joblib.dump(model, pathlib.Path(os.environ.get("MODEL_DIR", ".")) / "model.joblib")


if __name__ == "__main__":
    main()
