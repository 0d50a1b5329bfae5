"""This peer's data. Put your own into load(): train.py uses nothing else of this file.

What stands here makes small data up: sentences of numbered words about four subjects, of which each peer has only two.
Alone a peer can't know the other two; the swarm's model knows all four.
"""

import os
import re

import torch
from torch.utils.data import Dataset

CLASSES, WORDS, LENGTH = 4, 40, 12


def load():
    """Return samples to train on, which this peer alone has, and samples to test on, which are the same at all peers.

    With --data-dir 'shards/{peer}' each peer finds its own folder in os.environ["DATA_DIR"].
    """
    # Peers of swarmctl local run are called sl-0, sl-1, and so on.
    peer = int(re.sub(r"\D", "", os.environ.get("SWARM_PEER", "")) or 0)
    mine = [(peer + kind) % CLASSES for kind in range(2)]
    return Sentences(mine, 320, seed=peer + 1), Sentences(range(CLASSES), 256, seed=1000)


class Sentences(Dataset):
    """Sentences about these subjects: most words are some of the ten that belong to the subject."""

    def __init__(self, subjects, count, seed):
        random = torch.Generator().manual_seed(seed)
        subjects, own = torch.tensor(list(subjects)), WORDS // CLASSES
        self.labels = subjects[torch.randint(len(subjects), (count,), generator=random)]
        theirs = self.labels[:, None] * own + torch.randint(own, (count, LENGTH), generator=random)
        any_word = torch.randint(WORDS, (count, LENGTH), generator=random)
        self.words = torch.where(torch.rand(count, LENGTH, generator=random) < 0.7, theirs, any_word)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return {"input_ids": self.words[index], "labels": int(self.labels[index])}
