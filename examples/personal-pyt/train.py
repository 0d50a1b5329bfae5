#!/usr/bin/env python3
"""Train a common model with a head of one's own: peers see alike things and call them differently, each in its way.

Four kinds of samples, told apart by two directions that no peer has enough samples to find alone; each peer numbers the
kinds as it likes. Merging everything averages contradictions, so the head stays local: only the body is merged.
"""

from __future__ import annotations

import os
import pathlib
import re

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from swarmlearning.pyt import SwarmCallback

FEATURES, KINDS, SAMPLES, BATCH, EPOCHS = 30, 4, 60, 15, 40


def samples(peer: int, count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Make samples and the labels that this peer gives them."""
    directions = torch.randn(2, FEATURES, generator=torch.Generator().manual_seed(99))
    names = torch.randperm(KINDS, generator=torch.Generator().manual_seed(1000 + peer))
    x = torch.randn(count, FEATURES, generator=torch.Generator().manual_seed(seed))
    first, second = (x @ directions.T > 0).long().unbind(dim=1)
    return x, names[2 * first + second]


def main() -> None:
    """Train, merging what is common."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    peer = int(re.sub(r"\D", "", os.environ.get("SWARM_PEER", "")) or 0)
    x, y = samples(peer, SAMPLES, seed=peer + 1)
    x_test, y_test = samples(peer, 2000, seed=peer + 77)

    model = nn.Sequential()
    model.add_module("body", nn.Linear(FEATURES, 8))
    model.add_module("act", nn.Tanh())
    model.add_module("head", nn.Linear(8, KINDS))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)

    swarm = SwarmCallback(
        syncFrequency=SAMPLES // BATCH,
        minPeers=int(os.environ.get("MIN_PEERS", "2")),
        model=model,
        totalEpochs=EPOCHS,
        # What stays with this peer: neither sent nor overwritten. LOCAL_LAYERS= merges everything.
        localLayers=[name for name in os.environ.get("LOCAL_LAYERS", "head").split(",") if name],
        # Pull the body towards the merged one: the peers' heads tear it in different directions.
        fedProxMu=float(os.environ.get("FEDPROX_MU", "0.01")),
        # Optional: measure the merged body with the own head while it trains.
        adsValData=DataLoader(TensorDataset(x_test, y_test), batch_size=500),
        lossFunction="CrossEntropyLoss",
        metricFunction="Accuracy",
        metricFunctionArgs={"task": "multiclass", "num_classes": KINDS},
    )
    swarm.on_train_begin()
    for epoch in range(EPOCHS):
        for xs, ys in zip(x.split(BATCH), y.split(BATCH)):
            optimizer.zero_grad()
            functional.cross_entropy(model(xs), ys).backward()
            optimizer.step()
            swarm.on_batch_end()
        swarm.on_epoch_end(epoch)
    swarm.on_train_end()

    model_dir = pathlib.Path(os.environ.get("MODEL_DIR", "model"))
    model_dir.mkdir(parents=True, exist_ok=True)
    # The whole model, own head included; the swarm knows the body only.
    torch.save(model.state_dict(), model_dir / "model.pt")
    accuracy = float((model(x_test).argmax(dim=1) == y_test).float().mean())
    print(f"final test accuracy: {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
