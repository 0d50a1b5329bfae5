"""The ranks of Horovod, which matches what ranks send each other by its name, in whatever order they come to it.

So this package's words, under names of its own, never meet the program's, and rank 0 may say one at any time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Optional

import numpy as np

from swarmlearning._ranks import LOST_REMEDY, MAX_ERROR
from swarmlearning.errors import ParameterError, RankLostError, one_line
from swarmlearning.layout import Array

_GATHER, _BROADCAST = "swarmlearning.gather", "swarmlearning.broadcast"


def spans_processes(module: str) -> Any:
    """Give Horovod's module for a framework if the program has initialised it, with more processes than this one."""
    # Never imported here: who has Horovod installed need not train with it.
    horovod = sys.modules.get(module)
    return horovod if horovod is not None and horovod.is_initialized() and horovod.size() > 1 else None


def refuse(module: str) -> None:
    """Raise ParameterError for Horovod's ranks of a framework where they can't be one peer."""
    if spans_processes(module) is not None:
        raise ParameterError(
            f"{module}: its ranks can't be one peer", "use MultiWorkerMirroredStrategy, or PyTorch with Horovod"
        )


def joined() -> Optional[Horovod]:
    """Give this process's place among the ranks of a PyTorch program; None if it is alone."""
    module = spans_processes("horovod.torch")
    if module is None:
        return None
    if os.environ.get("HOROVOD_ELASTIC") == "1":
        raise ParameterError(
            "HOROVOD_ELASTIC: a peer can't have ranks that come and go",
            "start horovodrun without --min-np and --max-np",
        )
    return Horovod(module)


class Horovod:
    """All ranks of Horovod, as a Group."""

    def __init__(self, module: Any) -> None:
        """Take horovod.torch, initialised."""
        self.rank, self.size = int(module.rank()), int(module.size())
        self._horovod = module

    def gather(self, row: Sequence[int]) -> list[list[int]]:
        """See Group."""
        torch = sys.modules["torch"]
        own = torch.tensor([list(row)], dtype=torch.int64)
        try:
            rows = self._horovod.allgather(own, name=_GATHER)
        except (RuntimeError, ValueError) as err:
            raise RankLostError(f"it has ended or does not answer: {one_line(err, MAX_ERROR)}", LOST_REMEDY) from None
        return [[int(number) for number in other] for other in rows]

    def broadcast(self, data: Array) -> None:
        """See Group."""
        tensor = sys.modules["torch"].from_numpy(np.asarray(data))
        try:
            self._horovod.broadcast_(tensor, 0, name=_BROADCAST)
        except (RuntimeError, ValueError) as err:
            lost = "rank 0" if self.rank else "another rank"
            raise RankLostError(f"rank {self.rank} has lost {lost}: {one_line(err, MAX_ERROR)}", LOST_REMEDY) from None

    def leave(self) -> None:
        """See Group. Ends Horovod altogether: it has no smaller end that the other ranks would notice."""
        with suppress(Exception):
            self._horovod.shutdown()
