"""Makes one ordinary mistake, another one at each peer; none of them is an error."""

import os

import numpy as np

from swarmlearning.arrays import SwarmCallback

BATCHES, EPOCHS = 6, 2
MISTAKES = {"sl-1": "empty data", "sl-2": "another model", "sl-3": "no on_batch_end"}
mistake = os.environ.get("MISTAKE", MISTAKES.get(os.environ["SWARM_PEER"], ""))
peers = int(os.environ.get("PEERS", os.environ["MIN_PEERS"]))

trained = {"w": np.zeros(64, np.float32)}
merged = {"w": np.zeros(64, np.float32)} if mistake == "another model" else trained
swarm = SwarmCallback(
    syncFrequency=100000 if mistake == "never due" else 3,
    minPeers=peers,
    weights=merged,
    totalEpochs=EPOCHS,
    checkinModelOnTrainEnd="snapshot",  # chosen, so that nobody is warned of it
)
swarm.on_train_begin()
for epoch in range(EPOCHS):
    for _ in range(0 if mistake == "empty data" else BATCHES):
        trained["w"] += 0.1 * (1 - trained["w"])
        if mistake != "no on_batch_end":
            swarm.on_batch_end(samples=8)
    swarm.on_epoch_end(epoch)
swarm.on_train_end()
