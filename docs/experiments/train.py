#!/usr/bin/env python3
"""The program that the experiments run in swarms: it trains a small network on digits of 8 x 8 pixels.

The environment says what: CASE and PEER name the peer's images (trials.py writes them), SEED the random numbers, NET
the network, LR the learning rate, SYNC the batches between two merges, WEIGHTS the peers' weights, LOCAL what is not
merged, and STOP that it ends when the loss on images of its own has not fallen for three epochs. It chooses no
checkinModelOnTrainEnd. It writes MODEL_DIR/result.json.
"""

from __future__ import annotations

import json
import os
import pathlib

import numpy as np
import torch
from torch import nn

from swarmlearning.pyt import SwarmCallback

BATCH = 32
PATIENCE = 3


def network(kind: str) -> nn.Module:
    """Give a network: dense, or convolutional with one kind of normalisation or none."""
    if kind == "dense":
        return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def layer(old: int, new: int) -> list[nn.Module]:
        norm: dict[str, list[nn.Module]] = {
            "cnn": [],
            "batchnorm": [nn.BatchNorm2d(new)],
            "groupnorm": [nn.GroupNorm(4, new)],
        }
        return [nn.Conv2d(old, new, 3, padding=1), *norm[kind], nn.ReLU(), nn.MaxPool2d(2)]

    return nn.Sequential(nn.Unflatten(1, (1, 8, 8)), *layer(1, 16), *layer(16, 32), nn.Flatten(), nn.Linear(128, 10))


def score(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> tuple[float, float]:
    """Give loss and accuracy."""
    model.eval()
    with torch.no_grad():
        out = model(x)
    model.train()
    return float(nn.functional.cross_entropy(out, y)), float((out.argmax(dim=1) == y).double().mean())


def main() -> None:
    """Train, merging with the peers, until this peer's own end."""
    env = os.environ
    seed, peer = int(env["SEED"]), env["PEER"]
    torch.set_num_threads(1)
    torch.manual_seed(100 * seed + int(peer))
    with np.load(pathlib.Path(env["DATA_DIR"]) / f"{env['CASE']}-{peer}.npz") as data:
        x, y, x_val, y_val, x_test, y_test = (
            torch.from_numpy(data[k]) for k in ("x", "y", "x_val", "y_val", "x_test", "y_test")
        )
        epochs, most = int(data["epochs"]), int(data["batches"])
    model = network(env.get("NET", "dense"))
    optimizer = torch.optim.SGD(model.parameters(), lr=float(env.get("LR", "0.2")))
    local = env.get("LOCAL", "")
    options = {"localLayers": local.split(",")} if local else {}
    swarm = SwarmCallback(
        syncFrequency=int(env.get("SYNC", "4")),
        minPeers=int(env["MIN_PEERS"]),
        model=model,
        totalEpochs=epochs,
        nodeWeightage=int(env.get("WEIGHTS", "1,1,1").split(",")[int(peer)]),
        **options,
    )
    swarm.on_train_begin()
    best, since, curve, last, batches = float("inf"), 0, [], swarm.round, 0
    for epoch in range(epochs):
        for rows in torch.randperm(len(x)).split(BATCH):
            if batches == most or swarm.training_over:
                break
            batches += 1
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
            swarm.on_batch_end()
            if swarm.round != last:  # the model is the merged one now
                last = swarm.round
                curve.append([last, round(score(model, x_test, y_test)[1], 4)])
        swarm.on_epoch_end(epoch)
        loss, _ = score(model, x_val, y_val) if env.get("STOP") else (0.0, 0.0)
        best, since = (loss, 0) if loss < best else (best, since + 1)
        if batches == most or swarm.training_over or (env.get("STOP") and since >= PATIENCE):
            break
    swarm.on_train_end()
    result = {"accuracy": score(model, x_test, y_test)[1], "epochs": epoch + 1, "curve": curve}
    (pathlib.Path(env["MODEL_DIR"]) / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
