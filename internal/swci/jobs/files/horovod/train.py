"""Train a small network with Horovod, on data that each rank makes up for itself."""

import argparse
import hashlib

import horovod.torch as hvd
import torch
from torch import nn


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
    hvd.init()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    x, y = data(hvd.rank())
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.5), named_parameters=model.named_parameters()
    )
    loss_function = nn.BCEWithLogitsLoss()
    for epoch in range(epochs):
        for start in range(0, len(x), 32):
            optimizer.zero_grad()
            loss = loss_function(model(x[start : start + 32]), y[start : start + 32])
            loss.backward()
            optimizer.step()
        print(f"rank {hvd.rank()} of {hvd.size()}: epoch {epoch + 1}, loss {loss.item():.4f}")
    print(f"rank {hvd.rank()}: model {digest(model)}")


if __name__ == "__main__":
    main()
