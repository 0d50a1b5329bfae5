"""A program as people have it, without a swarm, and README's lines put into it."""

import pathlib

from machine import WalkError

PLAIN = """import os

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DATA, MODEL = os.environ.get("DATA_DIR", "data"), os.environ.get("MODEL_DIR", ".")


def digits(name):
    with np.load(f"{DATA}/{name}.npz") as d:
        return TensorDataset(torch.from_numpy(d["x"]).reshape(-1, 1, 8, 8), torch.from_numpy(d["y"]))


torch.manual_seed(1)
loader = DataLoader(digits("train"), batch_size=8, shuffle=True, drop_last=True)
validation = DataLoader(digits("test"), batch_size=128)
model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loss_function = nn.CrossEntropyLoss()
epochs = 24

for epoch in range(epochs):
    for x, y in loader:
        optimizer.zero_grad()
        loss_function(model(x), y).backward()
        optimizer.step()
    print("epoch", epoch, "done")

torch.save(model.state_dict(), f"{MODEL}/model.pt")
"""


def readme_lines(readme):
    """Give README's diff, without its fence."""
    return pathlib.Path(readme).read_text(encoding="utf-8").partition("```diff\n")[2].partition("```")[0].splitlines()


def joined(plain, diff):
    """Put a diff's new lines where its own lines around them say, and give the program and how many lines came in."""
    lines, at, new = plain.splitlines(), 0, 0
    waiting = []
    for line in diff:
        mark, text = line[:1], line[1:].partition("  # ")[0].rstrip()
        if mark == "+":
            waiting.append(text)
            new += 1
        elif (
            text.strip() == "..."
        ):  # what comes after stands further on; what came before are imports, which stand first
            lines[0:0], waiting = waiting, []
        else:
            where = next((i for i in range(at, len(lines)) if lines[i] == text), None)
            if where is None:
                raise WalkError(f"README's line {text!r} is not in the program")
            lines[where:where] = waiting
            at, waiting = where + len(waiting) + 1, []
    for text in waiting:  # behind the block of the line that was met last
        inside = max(indent(text), 1)
        while at < len(lines) and indent(lines[at]) >= inside:
            at += 1
        lines.insert(at, text)
        at += 1
    return "\n".join(lines) + "\n", new


def indent(line):
    """Give by how much a line is indented."""
    return len(line) - len(line.lstrip())
