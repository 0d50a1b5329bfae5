#!/usr/bin/env python3
"""Train as train.py does, with ranks that Ray Train starts: RANKS workers (2) of a Ray cluster are one peer of a swarm.

Rank 0 must run on the host of the peer's node, whose bridge it uses. Ray starts it where the trainer runs, and that
is where the resource "swarm" is: start Ray on that host with `ray start --head --resources '{"swarm": 1}'`.
"""

from __future__ import annotations

import os
import pathlib

import ray
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer
from train import train

HERE = pathlib.Path(__file__).resolve().parent
# What the workers need of this process's environment: Ray's own processes were started without it.
PASSED = ("SWARM_BRIDGE_DIR", "SWARM_PEER", "DATA_DIR", "MODEL_DIR", "MIN_PEERS", "MAX_EPOCHS", "CONTRACT", "SEED")


def main() -> None:
    """Start the ranks and wait for them."""
    variables = {name: os.environ[name] for name in PASSED if name in os.environ}
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
    ray.init(runtime_env={"env_vars": variables})
    trainer = TorchTrainer(
        train,  # whose process group Ray initialises
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(
            num_workers=int(os.environ.get("RANKS", "2")), trainer_resources={"CPU": 0, "swarm": 0.01}
        ),
        # A rank that dies ends all of them: the peer ends, and whoever started it decides whether it starts again.
        run_config=RunConfig(
            failure_config=FailureConfig(max_failures=0),
            storage_path=str(pathlib.Path(os.environ.get("MODEL_DIR", "model")).resolve() / "ray"),
        ),
    )
    trainer.fit()


if __name__ == "__main__":
    main()
