"""As the pages of release 2.3 have it, PyTorch: the same as in 2.1, and a contract of one's own."""

import os

import numpy as np
import torch
import torch.nn as nn
from swarmlearning.pyt import SwarmCallback

default_max_epochs = 2
default_min_peers = 2
batchSz = 16


def main():
    dataDir = os.getenv("DATA_DIR", "/platform/data")
    scratchDir = os.getenv("SCRATCH_DIR", os.getenv("MODEL_DIR", "/platform/scratch"))
    max_epochs = int(os.getenv("MAX_EPOCHS", str(default_max_epochs)))
    min_peers = int(os.getenv("MIN_PEERS", str(default_min_peers)))
    rows = np.loadtxt(os.path.join(dataDir, "data.csv"), delimiter=",", dtype=np.float32)
    trainDs = torch.utils.data.TensorDataset(torch.from_numpy(rows[:, :-1]), torch.from_numpy(rows[:, -1]).long())
    trainLoader = torch.utils.data.DataLoader(trainDs, batch_size=batchSz)
    testLoader = torch.utils.data.DataLoader(trainDs, batch_size=batchSz)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    opt = torch.optim.Adam(model.parameters())
    lFunc = nn.CrossEntropyLoss()
    swarmCallback = SwarmCallback(
        syncFrequency=2,
        minPeers=min_peers,
        useAdaptiveSync=False,
        adsValData=testLoader,
        adsValBatchSize=batchSz,
        model=model,
        trainingContract="defaultbb.cqdb.sml.hpe",
        mergeMethod="geomedian",
        totalEpochs=max_epochs,
        lossFunction="CrossEntropyLoss",
        lossFunctionArgs={"reduction": "sum"},
        metricFunction="Accuracy",
        metricFunctionArgs={"task": "multiclass", "num_classes": 2},
    )
    swarmCallback.on_train_begin()
    for epoch in range(1, max_epochs + 1):
        for batchIdx, (data, target) in enumerate(trainLoader):
            opt.zero_grad()
            lFunc(model(data), target).backward()
            opt.step()
            swarmCallback.on_batch_end(batchIdx)
        swarmCallback.on_epoch_end(epoch)
    swarmCallback.on_train_end()
    torch.save(model, os.path.join(scratchDir, "saved_model.pt"))


if __name__ == "__main__":
    main()
