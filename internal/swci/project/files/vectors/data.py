"""This peer's data. Put your own into load(): train.py uses nothing else of this file.

What stands here makes small data up: samples of six kinds, of which each peer has only three. Alone a peer can't know
the other three; the swarm's model knows all six.
"""

import os
import re

import numpy as np

CLASSES, FEATURES = 6, 16


def load():
    """Return (x, y) to train on, which this peer alone has, and (x, y) to test on, which is the same at all peers.

    With --data-dir 'shards/{peer}' each peer finds its own folder in os.environ["DATA_DIR"].
    """
    # Peers of swarmctl local run are called sl-0, sl-1, and so on.
    peer = int(re.sub(r"\D", "", os.environ.get("SWARM_PEER", "")) or 0)
    mine = [(2 * peer + kind) % CLASSES for kind in range(3)]
    return samples(mine, 480, seed=peer + 1), samples(range(CLASSES), 600, seed=1000)


def samples(kinds, count, seed):
    """Make samples of these kinds: noise around a centre of their own."""
    centres = np.random.default_rng(7).normal(size=(CLASSES, FEATURES))
    random = np.random.default_rng(seed)
    y = random.choice(np.array(list(kinds)), size=count)
    x = centres[y] + random.normal(scale=0.8, size=(count, FEATURES))
    return x.astype(np.float32), y.astype(np.int64)
