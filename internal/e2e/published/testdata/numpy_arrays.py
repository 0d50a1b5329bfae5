"""Without a framework: weights are arrays in a dictionary."""

import os

import numpy as np
from swarmlearning.arrays import SwarmCallback

rows = np.loadtxt(os.path.join(os.environ["DATA_DIR"], "data.csv"), delimiter=",")
x, y = rows[:, :-1], rows[:, -1]
weights = {"w": np.random.default_rng().standard_normal(8), "b": np.zeros(1)}
callback = SwarmCallback(syncFrequency=2, minPeers=int(os.environ["MIN_PEERS"]), weights=weights)
callback.on_train_begin()
for epoch in range(2):
    for start in range(0, len(x), 16):
        some = slice(start, start + 16)
        away = 1 / (1 + np.exp(-(x[some] @ weights["w"] + weights["b"]))) - y[some]
        weights["w"] -= 0.1 * x[some].T @ away / 16
        weights["b"] -= 0.1 * away.mean()
        callback.on_batch_end()
    callback.on_epoch_end(epoch)
callback.on_train_end()
np.savez(os.path.join(os.environ["MODEL_DIR"], "saved_model.npz"), **weights)
