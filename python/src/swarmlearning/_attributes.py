"""What every callback shows of itself, under this package's names and the original's."""

from __future__ import annotations

import difflib
import logging
from operator import attrgetter
from typing import Any, Optional

from swarmlearning._traceback import at_caller
from swarmlearning.base import Engine

# The names of the original: those of 2.x, then those of version 0.3.
ALIASES = {
    "isSwarmTrainingOver": "training_over",
    "currentSyncFrequency": "sync_frequency",
    "epochsCompleted": "epochs_completed",
    "mlPlatform": "ml_platform",
    "is_swarm_training_over": "training_over",
    "current_sync_interval": "sync_frequency",
}

# What a program or its framework calls.
_HOOKS = (
    "__init__",
    "on_train_begin",
    "on_batch_end",
    "on_train_batch_end",
    "on_step_end",
    "on_epoch_end",
    "on_evaluate",
    "on_train_end",
    "report",
)


class Attributes:
    """The attributes of a callback. They are read-only; the classes that have them set _engine and ml_platform."""

    _engine: Engine

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let errors of this package's hooks end where they were called; a program's own subclass stays as it is."""
        super().__init_subclass__(**kwargs)
        if cls.__module__.startswith("swarmlearning."):
            for name in _HOOKS:
                if name in vars(cls):
                    setattr(cls, name, at_caller(vars(cls)[name]))

    ml_platform = ""
    """Which framework's models the callback merges, in the original's words: PYTORCH, KERAS, NUMPY, ..."""

    @property
    def training_over(self) -> bool:
        """True when the swarm has finished: the loop may end and call on_train_end, which loads the final model."""
        return self._engine.training_over

    @property
    def round(self) -> int:
        """The last merge's number, from 1; 0 before the first."""
        return self._engine.round

    @property
    def sync_frequency(self) -> int:
        """Batches from one merge to the next: syncFrequency, or what adaptive sync has made of it."""
        return self._engine.sync_frequency

    @property
    def epochs_completed(self) -> int:
        """How many epochs have ended since on_train_begin."""
        return self._engine.epochs_completed

    @property
    def samples(self) -> Optional[int]:
        """How many samples were trained since on_train_begin; None where on_batch_end was not told."""
        return self._engine.samples

    @property
    def loopback(self) -> bool:
        """True when SWARM_LOOPBACK was set at construction: the training goes on without a swarm."""
        return self._engine.loopback

    @property
    def logger(self) -> logging.Logger:
        """Where the callback logs to; its level and its handlers count."""
        return self._engine.logger

    @at_caller
    def report(self, loss: Optional[float], metric: Optional[float] = None, metric_name: str = "") -> None:
        """Tell the swarm loss and metric of the merged model of this round, where the program measures them itself.

        metric_name is what the metric is called where it is shown, such as "accuracy"; by default as before.
        With overlap the program never has that model alone: what it measures then counts as its own model's.
        """
        self._engine.report(loss, metric, metric_name)

    def __getattr__(self, name: str) -> Any:
        """Name the attribute that was probably meant; Python asks for those alone that there are not."""
        if name.startswith("_"):
            raise AttributeError(name)
        near = difflib.get_close_matches(name, _names(type(self)), n=1)
        guess = f"; did you mean {near[0]}?" if near else "."
        raise AttributeError(f"SwarmCallback has no attribute {name!r}{guess} docs/reference/python.md lists them")


for _alias, _name in ALIASES.items():
    setattr(Attributes, _alias, property(attrgetter(_name), doc=f"The same as {_name}."))


def _names(cls: type) -> list[str]:
    return [name for name in dir(cls) if not name.startswith("_")]
