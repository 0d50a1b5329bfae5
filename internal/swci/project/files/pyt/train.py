"""Train a small PyTorch network in a swarm. The lines marked "swarm" are what makes the program a peer.

./run.sh runs it at three peers; without a swarm: SWARM_LOOPBACK=true, with swarmlearning installed.
"""

import os
import pathlib

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from data import CLASSES, FEATURES, load

try:
    from swarmlearning.pyt import SwarmCallback  # swarm
except ModuleNotFoundError as missing:
    if missing.name != "swarmlearning":
        raise
    raise SystemExit("train.py: start it with ./run.sh, which brings the swarmlearning package along") from None

EPOCHS, BATCH, SYNC_FREQUENCY = 10, 32, 4


def main():
    torch.manual_seed(1)
    (x, y), (x_test, y_test) = load()
    train = DataLoader(TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), batch_size=BATCH, shuffle=True)
    test = DataLoader(TensorDataset(torch.from_numpy(x_test), torch.from_numpy(y_test)), batch_size=256)

    model = nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_function = nn.CrossEntropyLoss()

    # swarm: merge with the peers every SYNC_FREQUENCY batches; adsValData measures the merged model
    swarm = SwarmCallback(
        syncFrequency=SYNC_FREQUENCY,
        minPeers=int(os.environ.get("MIN_PEERS", "2")),
        model=model,
        totalEpochs=EPOCHS,
        adsValData=test,
    )
    swarm.on_train_begin()  # swarm: wait for the peers, start from one common model
    for epoch in range(EPOCHS):
        model.train()
        for inputs, targets in train:
            optimizer.zero_grad()
            loss_function(model(inputs), targets).backward()
            optimizer.step()
            swarm.on_batch_end()  # swarm: merge when it is time
        swarm.on_epoch_end(epoch)  # swarm: measure and report
    swarm.on_train_end()  # swarm: wait for the peers, load the final model

    torch.save(model.state_dict(), pathlib.Path(os.environ.get("MODEL_DIR", ".")) / "model.pt")


if __name__ == "__main__":
    main()
