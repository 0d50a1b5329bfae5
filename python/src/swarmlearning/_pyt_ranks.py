"""The ranks of torch.distributed: torchrun, Slurm, Kubernetes or Ray Train has started them."""

from __future__ import annotations

import atexit
import collections
import datetime
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Optional

import numpy as np
import torch

from swarmlearning import _hvd_ranks, _ranks
from swarmlearning._pyt_shards import refuse_marked
from swarmlearning._rank_weights import SAMPLED, stride, sums
from swarmlearning._ranks import LOST_REMEDY, MAX_ERROR, Ranks, hinting
from swarmlearning.errors import RankLostError, one_line
from swarmlearning.layout import Array

# Tensors of so many collectives are kept: gloo's threads let go of them a moment after the collective, and should not
# be the last, for whom freeing them takes Python's lock.
KEPT = 4
# How long a rank waits for another one where the program's own limit can't be read; torch's default.
LIMIT = datetime.timedelta(minutes=30)
# Words of rank 0 that a rank can miss before it takes rank 0 for lost.
BEATS = 6

APART_REMEDY = (
    "train with DistributedDataParallel and call that model, not the module inside; leave no_sync and averaging of "
    "models (post_localSGD) out; or average the gradients, as hvd.DistributedOptimizer does"
)

_WRAPPERS = (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """Give the module that is trained: its tensors have the names that they have at peers of one rank."""
    while True:
        # torch.compile keeps what it was given there; a module without a wrapper is compiled at peers of one rank too.
        compiled = getattr(model, "_orig_mod", None)
        if isinstance(model, _WRAPPERS):
            model = model.module
        elif isinstance(compiled, _WRAPPERS):
            model = compiled.module
        else:
            return model


def weight_sums(parameters: Iterable[torch.Tensor], batches: int) -> Array:
    """Give the sums by which ranks compare what they have trained, after so many batches since it was equal.

    Buffers are left out: batch norm's are each rank's own from one forward pass to the next.
    """
    samples: dict[tuple[torch.device, torch.dtype], list[torch.Tensor]] = {}
    for parameter in parameters:
        refuse_marked(parameter)
        if parameter.requires_grad:
            sample = parameter.detach().reshape(-1)[:: stride(parameter.numel())][:SAMPLED]
            samples.setdefault((sample.device, sample.dtype), []).append(sample)
    # One copy from each device, not one for each parameter.
    return sums(
        ((str(kind[1])[len("torch.") :], torch.cat(pieces).float().cpu().numpy()) for kind, pieces in samples.items()),
        batches,
    )


def spans_processes() -> bool:
    """Report whether torch.distributed or Horovod is initialised with more processes than this one."""
    return _torch_spans() or _hvd_ranks.spans_processes("horovod.torch") is not None


def joined(logger: logging.Logger) -> Optional[Ranks]:
    """Give this process's place among the ranks; None if it is alone. Every rank must call it; blocks until they do."""
    if _torch_spans():
        return Ranks(_Gloo(logger), logger)
    horovod = _hvd_ranks.joined()
    return None if horovod is None else Ranks(horovod, logger)


def _torch_spans() -> bool:
    distributed = torch.distributed
    return bool(distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1)


class _Gloo:
    """A group on the CPU that the program's own collectives do not share."""

    def __init__(self, logger: logging.Logger) -> None:
        self.rank, self.size = torch.distributed.get_rank(), torch.distributed.get_world_size()
        self._group: Any = None
        self._kept: collections.deque[Any] = collections.deque(maxlen=KEPT)
        hint = f"rank {self.rank} has made its SwarmCallback and waits for all {self.size} ranks to make theirs"
        try:
            with hinting(logger, hint):
                self._group = torch.distributed.new_group(backend="gloo", timeout=_limit())
            # A group that is still there when Python ends may abort the process.
            atexit.register(self.leave)
        except (RuntimeError, ValueError) as err:
            raise RankLostError(
                f"rank {self.rank} can't reach all {self.size} ranks: {one_line(err, MAX_ERROR)}",
                "make a SwarmCallback on every rank; across hosts GLOO_SOCKET_IFNAME names the network interface",
            ) from None

    def gather(self, row: Sequence[int]) -> list[list[int]]:
        own, rows = (
            torch.tensor(row, dtype=torch.int64),
            [torch.zeros(len(row), dtype=torch.int64) for _ in range(self.size)],
        )
        self._kept.append((own, rows))
        try:
            torch.distributed.all_gather(rows, own, group=self._present())
        except (RuntimeError, ValueError) as err:
            raise RankLostError(f"it has ended or does not answer: {one_line(err, MAX_ERROR)}", LOST_REMEDY) from None
        return [[int(number) for number in other] for other in rows]

    def broadcast(self, data: Array) -> None:
        tensor = torch.from_numpy(np.asarray(data))
        self._kept.append(tensor)
        try:
            torch.distributed.broadcast(tensor, 0, group=self._present())
        except (RuntimeError, ValueError) as err:
            lost = "rank 0" if self.rank else "another rank"
            raise RankLostError(f"rank {self.rank} has lost {lost}: {one_line(err, MAX_ERROR)}", LOST_REMEDY) from None

    def leave(self) -> None:
        atexit.unregister(self.leave)
        group, self._group = self._group, None
        if group is not None:
            # A program may have taken down all groups before.
            with suppress(Exception):
                torch.distributed.destroy_process_group(group)

    def _present(self) -> Any:
        if self._group is None:
            raise RuntimeError("this rank has left after an error; make a new SwarmCallback on every rank")
        return self._group


def _limit() -> datetime.timedelta:
    """Give how long the program lets a rank wait for another one, but no less than several words of rank 0 take."""
    return max(_programs_limit(), datetime.timedelta(seconds=BEATS * _ranks.BEAT_SECONDS))


def _programs_limit() -> datetime.timedelta:
    # No torch says it in public, and each says it elsewhere.
    with suppress(AttributeError, RuntimeError, KeyError, TypeError):
        group = torch.distributed.distributed_c10d._get_default_group()
        for owner in _backends(group):
            limit = getattr(getattr(owner, "options", None), "_timeout", None)
            if isinstance(limit, datetime.timedelta):
                return limit
    return LIMIT


def _backends(group: Any) -> Iterator[Any]:
    """Give what may have a group's options: of torch 2 the backend of a kind of device, before that the group."""
    for kind in ("cuda", "cpu"):
        with suppress(AttributeError, RuntimeError):
            yield group._get_backend(torch.device(kind))
    yield group
