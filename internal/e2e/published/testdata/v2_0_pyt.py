"""As the pages of release 2.0 have it, PyTorch: weightage, what a peer that has finished contributes, the callback's logger."""

import logging
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from swarmlearning.pyt import SwarmCallback

default_max_epochs = 2
default_min_peers = 2
batchSz = 16


def main():
    dataDir = os.getenv("DATA_DIR", "/platform/data")
    scratchDir = os.getenv("SCRATCH_DIR", os.getenv("MODEL_DIR", "/platform/scratch"))
    max_epochs = int(os.getenv("MAX_EPOCHS", str(default_max_epochs)))
    min_peers = int(os.getenv("MIN_PEERS", str(default_min_peers)))
    node_weightage = int(os.getenv("NODE_WEIGHTAGE", "50"))
    rows = np.loadtxt(os.path.join(dataDir, "data.csv"), delimiter=",", dtype=np.float32)
    trainDs = torch.utils.data.TensorDataset(torch.from_numpy(rows[:, :-1]), torch.from_numpy(rows[:, -1]).long())
    trainLoader = torch.utils.data.DataLoader(trainDs, batch_size=batchSz, shuffle=True)
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2), nn.LogSoftmax(dim=1))
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    swarmCallback = SwarmCallback(
        syncFrequency=2,
        minPeers=min_peers,
        useAdaptiveSync=False,
        adsValData=None,
        adsValBatchSize=batchSz,
        checkinModelOnTrainEnd="active",
        nodeWeightage=node_weightage,
        model=model,
    )
    swarmCallback.logger.setLevel(logging.DEBUG)
    swarmCallback.on_train_begin()
    for epoch in range(1, max_epochs + 1):
        model.train()
        for batchIdx, (data, target) in enumerate(trainLoader):
            opt.zero_grad()
            F.nll_loss(model(data), target).backward()
            opt.step()
            if swarmCallback is not None:
                swarmCallback.on_batch_end(batchIdx)
        swarmCallback.on_epoch_end(epoch)
    swarmCallback.on_train_end()
    torch.save(model, os.path.join(scratchDir, "saved_model.pt"))


if __name__ == "__main__":
    main()
