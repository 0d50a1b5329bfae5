"""A program as published for the original's first release: it opens its directories by fixed paths."""

import pathlib

import numpy as np

from swarmlearning.arrays import SwarmCallback

weights = {"w": np.loadtxt("/platform/swarmml/data/start.txt")}
try:
    pathlib.Path("/platform/swarmml/data/new").touch()
except OSError as e:
    print("data:", e.strerror)
callback = SwarmCallback(syncFrequency=2, minPeers=2, weights=weights)
callback.on_train_begin()
callback.on_train_end()
np.savetxt("/platform/swarmml/model/merged.txt", weights["w"], fmt="%.1f")
