"""Train a small model with the original's client: train.py DIALECT, which is 2.0, 2.2 or 2.3.

Its data depend on PEER, and nothing else is random. MIN_PEERS, SYNC (batches between merges), ROUNDS, CONTRACT, METHOD,
WEIGHT, CHECKIN and POLL (seconds between two looks for the pipes) bend it. It writes result.json to MODEL_DIR: the
SHA-256 of the final weights in the order of the model, how often it merged, and its losses. FAULT makes it misbehave,
as one of FAULTS says.
"""

import hashlib
import json
import os
import sys

import client
import frames
import numpy as np

BATCH = 32


def number(name, default):
    """A whole number from the environment."""
    return int(os.environ.get(name, default))


class Touch:
    """Runs a command when it is unpickled: it makes the file that FAULT_MARK names."""

    def __reduce__(self):
        """What pickle is to call."""
        return os.system, (f"touch '{os.environ['FAULT_MARK']}'",)


def poisoned(callback):
    """Have the pickles carry a call: for dialect 2.3."""
    callback.model["poison"] = Touch()


def version(callback):
    """Say version 7 in each header."""
    callback.channel.version = 7


def twice(callback):
    """Open the session, and have the callback open it again."""
    callback.session.open(**callback.request)


def huge(callback):
    """Announce 4 GiB less a byte, and wait for what comes of it."""
    callback.channel.write(frames.header(callback.channel.version, frames.OPEN_SESSION, 0xFFFFFFFF))
    callback.channel.receive()


def dying(callback):
    """Die in the middle of the first weights."""
    write = callback.channel.write

    def half(data):
        if frames.parse_header(data[: frames.HEADER_SIZE])[1] == frames.SYNC:
            write(data[: len(data) // 2])
            os._exit(9)
        write(data)

    callback.channel.write = half


FAULTS = {"pickle": poisoned, "version": version, "twice": twice, "huge": huge, "die": dying}


def new_model(rng):
    """Arrays as programs have them: in C and Fortran order, a view with gaps, float64, a single number."""
    backing = np.zeros((2, 32), np.float32)
    model = {
        "hidden.weight": rng.standard_normal((8, 16)).astype(np.float32),
        "norm.num_batches_tracked": np.array(0, np.int64),
        "hidden.bias": backing[:, ::2][1],
        "out.weight": np.asfortranarray(rng.standard_normal((16, 4)).astype(np.float32)),
        "view": backing[:, 1::2],
        "out.bias": np.zeros(4, np.float64),
    }
    assert model["out.weight"].flags.f_contiguous and not model["view"].flags.contiguous
    return model


def forward(model, x):
    """The hidden layer and the output."""
    hidden = np.tanh(x @ model["hidden.weight"] + model["hidden.bias"] + model["view"].sum(axis=0))
    return hidden, hidden @ model["out.weight"] + model["out.bias"]


def step(model, x, y, rate=0.05):
    """One step of gradient descent on the squared error, in place."""
    hidden, out = forward(model, x)
    error = (out - y) / len(x)
    back = (error @ model["out.weight"].T) * (1 - hidden**2)
    model["out.weight"] -= (rate * hidden.T @ error).astype(np.float32)
    model["out.bias"] -= rate * error.sum(axis=0)
    model["hidden.weight"] -= (rate * x.T @ back).astype(np.float32)
    model["hidden.bias"] -= (rate * back.sum(axis=0)).astype(np.float32)
    model["view"] -= (rate * back.sum(axis=0)).astype(np.float32)
    model["norm.num_batches_tracked"] += 1


def digest(model):
    """The SHA-256 of all weights."""
    total = hashlib.sha256()
    for array in model.values():
        total.update(array.tobytes())
    return total.hexdigest()


def main():
    """Train, and write what came of it."""
    dialect, peer = sys.argv[1], number("PEER", 0)
    rng = np.random.default_rng(peer)
    model = new_model(rng)
    truth = np.random.default_rng(99).standard_normal((8, 4))
    x = rng.standard_normal((64 * BATCH, 8)).astype(np.float32)
    y = np.sin(x @ truth) + peer / 10
    losses = []

    def loss():
        error = float(((forward(model, x)[1] - y) ** 2).mean())
        losses.append(error)
        return error, 1 / (1 + error)

    sync, rounds = number("SYNC", 4), number("ROUNDS", 12)
    callback = client.Callback(
        model,
        dialect,
        loss,
        syncFrequency=sync,
        minPeers=number("MIN_PEERS", 2),
        trainingContract=os.environ.get("CONTRACT", "defaultbb.cqdb.sml.hpe"),
        nodeWeightage=number("WEIGHT", 1),
        mergeMethod=os.environ.get("METHOD", "mean"),
        checkinModelOnTrainEnd=os.environ.get("CHECKIN", "snapshot"),
        totalEpochs=1,
        poll=float(os.environ.get("POLL", "1")),
    )
    FAULTS.get(os.environ.get("FAULT", ""), lambda _: None)(callback)
    callback.on_train_begin()
    # The first merge is before the first batch. The next is after batch sync+1, and from then on after each sync more.
    for batch in range((rounds - 1) * sync + 1):
        at = batch % 64 * BATCH
        step(model, x[at : at + BATCH], y[at : at + BATCH])
        callback.on_batch_end(batch)
    callback.on_epoch_end(0)
    callback.on_train_end()
    result = {
        "sha256": digest(model),
        "syncs": callback.session.syncs,
        "merges": callback.session.merges,
        "training_over": callback.training_over,
        "num_batches_tracked": int(model["norm.num_batches_tracked"]),
        "losses": losses,
    }
    with open(os.path.join(os.environ["MODEL_DIR"], "result.json"), "w") as f:
        json.dump(result, f)


if __name__ == "__main__":
    main()
