"""Models that no rank has whole, and which so can't be merged by rank 0 alone: FSDP's, DeepSpeed's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NoReturn

import torch

from swarmlearning.errors import ParameterError

REMEDY = "train it with DistributedDataParallel"

# By name, since not every torch has them, and DeepSpeed is none of this package's.
_FSDP = ("FullyShardedDataParallel", "FSDPModule")
_DEEPSPEED = ("DeepSpeedEngine",)
_TENSORS = ("DTensor", "ShardedTensor")


class Whole:
    """Holds a model to what it was when the callback was made: sharding may come later."""

    def __init__(self, model: torch.nn.Module) -> None:
        """Take the model. Raises ParameterError for one that is not whole."""
        self._model = model
        self._elements = 0
        self.check()
        self._elements = _count(_made(model))

    def check(self) -> None:
        """Raise ParameterError if no rank has the whole model any more."""
        for part in self._model.modules():
            _refuse_kinds(part)
        for parameter in self._model.parameters():
            refuse_marked(parameter)
        trained = [parameter for parameter in _made(self._model) if parameter.requires_grad]
        if trained and not _count(trained):
            _refuse("has parameters without elements, as ZeRO-3 and FSDP leave them")
        if _count(_made(self._model)) < self._elements:
            _refuse("has fewer parameters than when SwarmCallback was made, as FSDP leaves them")


def refuse(kind: str) -> NoReturn:
    """Raise ParameterError for what the training loop shards the model with."""
    _refuse(f"is sharded among the ranks ({kind})")


def refuse_marked(parameter: torch.Tensor) -> None:
    """Raise ParameterError for a parameter of DeepSpeed's.

    Also where each rank has all of it: after each step it is written anew, from a copy that no merge reaches.
    """
    if any(name.startswith("ds_") or name == "_hp_mapping" for name in getattr(parameter, "__dict__", ())):
        refuse("DeepSpeed")


def _refuse_kinds(part: torch.nn.Module) -> None:
    names = [base.__name__ for base in type(part).__mro__]
    if any(name in _DEEPSPEED for name in names):
        refuse("DeepSpeed")
    kinds = (type(parameter).__name__ for parameter in part.parameters(recurse=False))
    if any(name in _FSDP for name in names) or any(kind in _TENSORS for kind in kinds):
        refuse("FSDP")


def _made(model: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Give the parameters, but not those that are made when the first batch comes."""
    return (parameter for parameter in model.parameters() if not torch.nn.parameter.is_lazy(parameter))


def _count(parameters: Iterable[torch.Tensor]) -> int:
    return sum(parameter.numel() for parameter in parameters)


def _refuse(what: str) -> NoReturn:
    raise ParameterError(f"model: {what}, and only whole models can be merged", REMEDY)
