"""Time rounds of a model of 100 MiB: rounds.py CLIENT, a dialect of client.py, or ours for this project's package.

It trains nothing. rounds.json in MODEL_DIR gets the seconds of each round, from the weights that the program has to
those that it was given. MIN_PEERS, ROUNDS, MIB and CONTRACT bend it.
"""

import importlib
import json
import os
import sys
import time

import client
import numpy as np


def number(name, default):
    """A whole number from the environment."""
    return int(os.environ.get(name, default))


def main():
    """Merge ROUNDS times and once more, as the first one opens the session."""
    which, arrays = sys.argv[1], 10
    rng = np.random.default_rng(number("PEER", 0))
    size = number("MIB", 100) * 2**18 // arrays
    model = {f"layer{i}": rng.standard_normal(size).astype(np.float32) for i in range(arrays)}
    terms = {
        "syncFrequency": 1,
        "minPeers": number("MIN_PEERS", 2),
        "trainingContract": os.environ.get("CONTRACT", "defaultbb.cqdb.sml.hpe"),
    }
    if which == "ours":
        callback = importlib.import_module("swarmlearning.arrays").SwarmCallback(weights=model, **terms)
    else:
        callback = client.Callback(model, which, poll=0.05, **terms)
    callback.on_train_begin()
    seconds = []
    # The original's client merges after one batch more than it was told.
    for batch in range(number("ROUNDS", 7) + 1):
        model["layer0"][batch] += 1
        begin = time.monotonic()
        callback.on_batch_end(batch)
        seconds.append(time.monotonic() - begin)
    callback.on_train_end()
    seconds = [s for s in seconds if s > 0.001]
    with open(os.path.join(os.environ["MODEL_DIR"], "rounds.json"), "w") as f:
        json.dump(seconds, f)


if __name__ == "__main__":
    main()
