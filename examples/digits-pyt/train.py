#!/usr/bin/env python3
"""Train a small network on handwritten digits, alone or in a swarm, where no peer sees all ten digits.

Reads DATA_DIR/train.npz and DATA_DIR/test.npz (split.py makes them), writes MODEL_DIR/model.pt. The lines marked
"swarm" are all that a program of your own needs.
"""

from __future__ import annotations

import os
import pathlib

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swarmlearning.pyt import SwarmCallback  # swarm

BATCH = 32
SYNC_FREQUENCY = 4
LEARNING_RATE = 0.2


def dataset(path: pathlib.Path) -> TensorDataset:
    """Load images and labels."""
    with np.load(path) as data:
        return TensorDataset(torch.from_numpy(data["x"]), torch.from_numpy(data["y"]))


def accuracy(model: nn.Module, loader: DataLoader, device: str) -> float:
    """Give the share of images that the model names rightly."""
    model.eval()
    right = total = 0
    with torch.no_grad():
        for x, y in loader:
            right += int((model(x.to(device)).argmax(dim=1) == y.to(device)).sum())
            total += len(y)
    return right / total


def main() -> None:
    """Train, merging with the peers as the callback says."""
    torch.set_num_threads(1)
    torch.manual_seed(int(os.environ.get("SEED", "1")))
    data_dir = pathlib.Path(os.environ.get("DATA_DIR", "data"))
    model_dir = pathlib.Path(os.environ.get("MODEL_DIR", "model"))
    epochs = int(os.environ.get("MAX_EPOCHS", "30"))
    device = os.environ.get("DEVICE", "cpu")

    test_path = data_dir / "test.npz"
    test = DataLoader(dataset(test_path if test_path.exists() else data_dir.parent / "test.npz"), batch_size=256)
    train = DataLoader(dataset(data_dir / "train.npz"), batch_size=BATCH, shuffle=True, drop_last=True)

    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    loss_function = nn.CrossEntropyLoss()

    # swarm: merge the model with the peers every syncFrequency batches. The last six arguments are optional: the first
    # of them chooses how models are merged, the second that what only this peer has seen stays in when it ends before
    # the others; with the rest the merged model is measured, so that loss and accuracy are shown while it trains.
    swarm = SwarmCallback(
        syncFrequency=SYNC_FREQUENCY,
        minPeers=int(os.environ.get("MIN_PEERS", "2")),
        model=model,
        totalEpochs=epochs,
        mergeMethod=os.environ.get("MERGE_METHOD"),
        checkinModelOnTrainEnd="snapshot",
        adsValData=test,
        lossFunction="CrossEntropyLoss",
        metricFunction="Accuracy",
        metricFunctionArgs={"task": "multiclass", "num_classes": 10},
    )
    swarm.on_train_begin()  # swarm: wait for the peers, start from one common model
    for epoch in range(epochs):
        model.train()
        for x, y in train:
            optimizer.zero_grad()
            loss_function(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
            swarm.on_batch_end()  # swarm: merge when it is time
        swarm.on_epoch_end(epoch)  # swarm: measure and report
        if swarm.training_over:  # swarm: the others have finished, what is trained from here on is dropped
            break
    swarm.on_train_end()  # swarm: wait for the peers, load the final model

    model_dir.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), model_dir / "model.pt")
    print(f"final test accuracy: {accuracy(model, test, device):.4f}", flush=True)


if __name__ == "__main__":
    main()
