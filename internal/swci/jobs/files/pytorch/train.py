"""Train a small network with DistributedDataParallel, on data that each rank makes up for itself."""

import argparse
import hashlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def data(rank):
    noise = torch.Generator().manual_seed(rank)
    x = torch.randn(512, 8, generator=noise)
    return x, (x.sum(dim=1, keepdim=True) > 0).float()


def digest(model):
    """Equal on all ranks if the parameters are."""
    values = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    return hashlib.sha256(values).hexdigest()[:16]


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--epochs", type=int, default=3)
    epochs = options.parse_args().epochs
    torch.manual_seed(1)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="env://")
    x, y = data(dist.get_rank())
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    loss_function = nn.BCEWithLogitsLoss()
    for epoch in range(epochs):
        for start in range(0, len(x), 32):
            optimizer.zero_grad()
            loss = loss_function(model(x[start : start + 32]), y[start : start + 32])
            loss.backward()
            optimizer.step()
        print(f"rank {dist.get_rank()} of {dist.get_world_size()}: epoch {epoch + 1}, loss {loss.item():.4f}")
    print(f"rank {dist.get_rank()}: model {digest(model)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
