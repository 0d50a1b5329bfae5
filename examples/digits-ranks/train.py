#!/usr/bin/env python3
"""Train a small network on handwritten digits with DistributedDataParallel: all ranks together are one peer of a swarm.

torchrun starts it once for each rank; so may Slurm or Kubernetes. Reads DATA_DIR/train.npz and DATA_DIR/test.npz
(../digits-pyt/split.py makes them); rank 0 writes MODEL_DIR/model.pt. The lines marked "swarm" are the same as in a
program of one process.
"""

from __future__ import annotations

import hashlib
import os
import pathlib

import numpy as np
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from swarmlearning.pyt import SwarmCallback  # swarm

BATCH = 32  # of all ranks together
SYNC_FREQUENCY = 4
LEARNING_RATE = 0.2


def dataset(path: pathlib.Path) -> TensorDataset:
    """Load images and labels."""
    with np.load(path) as data:
        return TensorDataset(torch.from_numpy(data["x"]), torch.from_numpy(data["y"]))


def own_device() -> torch.device:
    """Give where this rank trains: with DEVICE=cuda the GPU of its number on its host, which ranks may share."""
    if os.environ.get("DEVICE", "cpu") == "cpu":
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())


def accuracy(model: nn.Module, loader: DataLoader, device: torch.device) -> float:
    """Give the share of images that the model names rightly."""
    model.eval()
    right = total = 0
    with torch.no_grad():
        for x, y in loader:
            right += int((model(x.to(device)).argmax(dim=1) == y.to(device)).sum())
            total += len(y)
    return right / total


def train() -> None:
    """Train in a process group that is initialised, merging with the other peers as the callback says."""
    torch.set_num_threads(1)
    torch.manual_seed(int(os.environ.get("SEED", "1")))
    data_dir = pathlib.Path(os.environ.get("DATA_DIR", "data"))
    model_dir = pathlib.Path(os.environ.get("MODEL_DIR", "model"))
    epochs = int(os.environ.get("MAX_EPOCHS", "30"))
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    device = own_device()

    test = DataLoader(dataset(data_dir / "test.npz"), batch_size=256)
    images = dataset(data_dir / "train.npz")
    # Every rank has as many batches as the others: the sampler fills up, and the last short batch is dropped.
    sampler: DistributedSampler[object] = DistributedSampler(images)
    loader = DataLoader(images, batch_size=BATCH // ranks, sampler=sampler, drop_last=True)

    module = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
    model = DistributedDataParallel(module)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    loss_function = nn.CrossEntropyLoss()

    # swarm: made on every rank. Rank 0 talks to the swarm, and the others take part through it.
    swarm = SwarmCallback(
        syncFrequency=SYNC_FREQUENCY,
        minPeers=int(os.environ.get("MIN_PEERS", "2")),
        trainingContract=os.environ.get("CONTRACT", "digits"),
        model=module,  # the one inside, which has the same names with one rank and with many
        totalEpochs=epochs,
        checkinModelOnTrainEnd="snapshot",
        adsValData=test,
        lossFunction="CrossEntropyLoss",
    )
    swarm.on_train_begin()  # swarm: wait for the peers, start from one common model
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            loss_function(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
            swarm.on_batch_end(samples=len(x))  # swarm: merge when it is time
        swarm.on_epoch_end(epoch)  # swarm: measure and report
        if swarm.training_over:  # swarm: the others have finished, what is trained from here on is dropped
            break
    swarm.on_train_end()  # swarm: wait for the peers, load the final model

    if rank == 0:
        model_dir.mkdir(parents=True, exist_ok=True)
        torch.save(module.state_dict(), model_dir / "model.pt")
    tensors = [tensor.cpu().numpy().tobytes() for tensor in module.state_dict().values()]
    digest, right = hashlib.sha256(b"".join(tensors)).hexdigest(), accuracy(module, test, device)
    print(f"rank {rank} of {ranks}: final test accuracy: {right:.4f} of model {digest}", flush=True)


def main() -> None:
    """Find the other ranks as torchrun says where they are."""
    device = own_device()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    distributed.init_process_group(os.environ.get("BACKEND", "gloo"))
    try:
        train()
    finally:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
