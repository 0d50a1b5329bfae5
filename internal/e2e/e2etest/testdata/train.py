"""A program that trains nothing, fast: random steps on a vector, merged by the swarm. The environment bends it."""

import os
import sys
import time

import numpy as np
from swarmlearning.arrays import SwarmCallback


def number(name, default):
    return type(default)(os.environ.get(name, default))


if sys.argv[1:]:
    print("arguments", sys.argv[1:], flush=True)
seed = number("SEED", 0)
rng = np.random.default_rng(seed)
size = number("SIZE", 1000)


def whole(step):
    """Whole numbers in place of random ones: sums of them are exact, whatever their order, and known to the test."""
    return ((7 * seed + 13 * step + 31 * np.arange(size)) % 19 - 9).astype(np.float32)


def hold(name):
    """Wait for the file that a variable names, if there is one."""
    while name in os.environ and not os.path.exists(os.environ[name]):
        time.sleep(0.02)


samples = number("SAMPLES", 0)  # of this peer's data: the weights follow them, and the training comes to a value that the test knows
epochs = number("EPOCHS", 0)
exact = bool(os.environ.get("WHOLE"))
weights = {"w": rng.standard_normal(size).astype(np.float32), "b": np.zeros(number("SIZE_B", 3), np.float64)}
if exact:
    weights["w"][:] = whole(0)
callback = SwarmCallback(
    syncFrequency=2,
    minPeers=number("MIN_PEERS", 2),
    nodeWeightage="samples" if samples else number("WEIGHT", 1),
    trainingContract=os.environ.get("CONTRACT", "e2e"),
    weights=weights,
    totalEpochs=epochs or None,
    evaluate=(lambda: (float(np.abs(weights["w"]).mean()), float(weights["w"].mean()))) if os.environ.get("LOSS") else None,
)
hold("HOLD_BEGIN")
callback.on_train_begin()
if os.environ.get("TRUNCATE"):
    os.truncate(os.path.join(os.environ["SWARM_BRIDGE_DIR"], "local"), 16)
for batch in range(number("BATCHES", 6)):
    if batch >= number("HASTE", 0):
        time.sleep(number("BATCH_SECONDS", 0.02))
    if samples:
        weights["w"][:] = 11 * (seed - 1)
    elif exact:
        weights["w"] += whole(batch + 1)
    else:
        step = rng.standard_normal(min(size, 1000)).astype(np.float32)
        weights["w"][: step.size] += np.float32(0.01) * step
    if batch == number("NAN_AT", -1):
        weights["w"][5] = np.nan
    if batch == number("EXIT_AT", -1):
        print("about to give up", file=sys.stderr)
        sys.exit(number("EXIT_CODE", 0))
    callback.on_batch_end(batch, samples=samples // number("BATCHES", 6) if samples else None)
    if epochs and (batch + 1) % (number("BATCHES", 6) // epochs) == 0:
        callback.on_epoch_end()
    if callback.training_over and os.environ.get("STOP_WHEN_OVER"):
        break
if samples:
    callback.on_epoch_end()
callback.on_train_end()
if samples:
    print(f"came to {weights['w'].min()} {weights['w'].max()}", flush=True)
hold("HOLD_END")
