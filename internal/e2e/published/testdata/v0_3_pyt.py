"""As the pages of release 0.3 have it, PyTorch: one callback for all frameworks, a dataset as val_data, fixed paths."""

import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from swarm import SwarmCallback

default_max_epochs = 2
default_min_peers = 2
batchSz = 16


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.dense = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16)
        self.dropout = nn.Dropout(0.2)
        self.out = nn.Linear(16, 2)

    def forward(self, x):
        x = self.dropout(F.relu(self.norm(self.dense(x))))
        return F.log_softmax(self.out(x), dim=1)


def loadData(dataDir):
    rows = np.loadtxt(os.path.join(dataDir, "data.csv"), delimiter=",", dtype=np.float32)
    return torch.utils.data.TensorDataset(torch.from_numpy(rows[:, :-1]), torch.from_numpy(rows[:, -1]).long())


def doTrainBatch(model, device, trainLoader, optimizer, epoch, swarmCallback):
    model.train()
    for batchIdx, (data, target) in enumerate(trainLoader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        swarmCallback.on_batch_end()


def main():
    dataDir = "/platform/swarmml/data"
    modelDir = "/platform/swarmml/model"
    max_epochs = int(os.getenv("MAX_EPOCHS", str(default_max_epochs)))
    min_peers = int(os.getenv("MIN_PEERS", str(default_min_peers)))
    trainDs = loadData(dataDir)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Net().to(device)
    opt = optim.Adam(model.parameters())
    trainLoader = torch.utils.data.DataLoader(trainDs, batch_size=batchSz)
    swCallback = SwarmCallback(sync_interval=2, min_peers=min_peers, val_data=trainDs, val_batch_size=batchSz, model_name="net", model=model)
    swCallback.on_train_begin()
    for epoch in range(1, max_epochs + 1):
        doTrainBatch(model, device, trainLoader, opt, epoch, swCallback)
        swCallback.on_epoch_end(epoch)
    swCallback.on_train_end()
    torch.save(model, os.path.join(modelDir, "saved_model.pt"))


if __name__ == "__main__":
    main()
