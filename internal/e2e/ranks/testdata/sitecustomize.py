"""Lets torch 1.13 of Debian 12 import FSDP on Python 3.11, as Ray Train does: default values must be hashable there."""

from __future__ import annotations

import dataclasses
from typing import Any

_dataclass = dataclasses.dataclass


def _hashable(cls: Any = None, /, **options: Any) -> Any:
    def wrap(made: Any) -> Any:
        if made.__module__ == "torch.distributed._shard.sharded_tensor.metadata":
            options.setdefault("unsafe_hash", True)
        return _dataclass(made, **options)

    return wrap if cls is None else wrap(cls)


dataclasses.dataclass = _hashable  # type: ignore[assignment]
