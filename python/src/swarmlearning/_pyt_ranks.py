"""The ranks of torch.distributed: torchrun, Slurm, Kubernetes or Ray Train has started them."""

from __future__ import annotations

import datetime
import logging
import warnings
from collections.abc import Sequence
from typing import Optional

import numpy as np
import torch

from swarmlearning._ranks import EQUAL_REMEDY, Ranks
from swarmlearning.errors import ParameterError, RankLostError
from swarmlearning.layout import Array

# A rank that has waited so long for another one gives up, in seconds.
LIMIT_SECONDS = 600

_WRAPPERS = (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """Give the module that is trained: its tensors have the names that they have at peers of one rank.

    Raises ParameterError for a model that no rank has whole.
    """
    while isinstance(model, _WRAPPERS):
        model = model.module
    for part in model.modules():
        if type(part).__name__ in ("FullyShardedDataParallel", "FSDPModule") or _sharded(part):
            raise ParameterError(
                "model: is sharded among the ranks (FSDP), and only whole models can be merged",
                "train it with DistributedDataParallel",
            )
    return model


def _sharded(part: torch.nn.Module) -> bool:
    kinds = (type(parameter).__name__ for parameter in part.parameters(recurse=False))
    return any(kind in ("DTensor", "ShardedTensor") for kind in kinds)


def joined(logger: logging.Logger) -> Optional[Ranks]:
    """Give this process's place among the ranks; None if it is alone. Every rank must call it; blocks until they do."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return None
    if torch.distributed.get_world_size() == 1:
        return None
    return Ranks(_Gloo(), logger)


class _Gloo:
    """A group on the CPU that the program's own collectives do not share."""

    def __init__(self) -> None:
        self.rank, self.size = torch.distributed.get_rank(), torch.distributed.get_world_size()
        limit = datetime.timedelta(seconds=LIMIT_SECONDS)
        try:
            self._group = torch.distributed.new_group(backend="gloo", timeout=limit)
        except RuntimeError as err:
            raise RankLostError(
                f"not all {self.size} ranks have made a SwarmCallback: {_line(err)}", "make it on every rank"
            ) from None

    def gather(self, row: Sequence[int]) -> list[list[int]]:
        rows = [torch.zeros(len(row), dtype=torch.int64) for _ in range(self.size)]
        try:
            torch.distributed.all_gather(rows, torch.tensor(row, dtype=torch.int64), group=self._group)
        except RuntimeError as err:
            raise RankLostError(f"a rank has ended or does not answer: {_line(err)}", EQUAL_REMEDY) from None
        return [[int(number) for number in other] for other in rows]

    def broadcast(self, data: Array) -> None:
        with warnings.catch_warnings():
            # Rank 0 gives a mapped file that it may only read, and nothing writes to it.
            warnings.simplefilter("ignore", UserWarning)
            tensor = torch.from_numpy(np.asarray(data))
        try:
            torch.distributed.broadcast(tensor, 0, group=self._group)
        except RuntimeError as err:
            raise RankLostError(
                f"rank {self.rank} has lost the other ranks: {_line(err)}", "the log of the rank that ended says why"
            ) from None


def _line(err: Exception) -> str:
    return " ".join(str(err).split())[:300]
