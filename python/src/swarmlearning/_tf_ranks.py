"""The ranks of tf.distribute: the workers of a MultiWorkerMirroredStrategy, which TF_CONFIG or its resolver names.

They reach each other by TCP and not by the strategy's collectives. Those are matched by the order in which a worker
makes them, so a word that rank 0 says while it waits, in a thread of its own, could meet a collective of the program;
and one that fails ends all later ones. A single collective, when the training begins, gives the others rank 0's key.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn, Optional, Union

from swarmlearning import _hvd_ranks
from swarmlearning._params import loopback
from swarmlearning._rank_sockets import KEY_BYTES, LATE_SECONDS, Door, First, Other, enter
from swarmlearning._ranks import MAX_ERROR, hinting
from swarmlearning.errors import ParameterError, RankLostError, one_line
from swarmlearning.layout import Array

_STRATEGY = "MultiWorkerMirroredStrategy"
APART_REMEDY = "train with fit, or with an optimizer inside strategy.run, which averages the gradients of all workers"


class _Place(NamedTuple):
    """A worker's place among all."""

    rank: int
    size: int
    first: str  # the host of rank 0


class Workers:
    """The workers of one peer, a Group once they are connected."""

    def __init__(self, place: _Place, logger: logging.Logger) -> None:
        """Take this worker's place."""
        self.rank, self.size, self._first = place
        self._logger = logger
        self._group: Union[First, Other, None] = None

    def connect(self, model: Any) -> bool:
        """Connect with the others, which must call it too; false where that has been done."""
        if self._group is not None:
            return False
        strategy = _strategy(model)
        if not _spans(strategy):
            raise ParameterError(
                f"model: is not trained by the {_STRATEGY} that SwarmCallback was made under",
                "make the model within strategy.scope()",
            )
        if self.rank == 0:
            with Door(self._first) as door:
                self._key(strategy, door.key)
                self._group = door.admit(self.size)
        else:
            self._group = enter(self._first, self._key(strategy, bytes(KEY_BYTES)), self.rank, self.size)
        return True

    def _key(self, strategy: Any, own: bytes) -> bytes:
        """Give rank 0's, as soon as all workers are here: they may have loaded their data for minutes."""
        hint = f"rank {self.rank} begins its training and waits for all {self.size} ranks to begin theirs"
        with hinting(self._logger, hint):
            return _from_rank_0(strategy, own)

    def gather(self, row: Sequence[int]) -> list[list[int]]:
        """See Group."""
        return self._connected().gather(row)

    def broadcast(self, data: Array) -> None:
        """See Group."""
        self._connected().broadcast(data)

    def leave(self) -> None:
        """See Group."""
        if self._group is not None:
            self._group.leave()

    def _connected(self) -> Union[First, Other]:
        if self._group is None:
            raise RankLostError(f"rank {self.rank} is not connected with the others", "call on_train_begin first")
        return self._group


def joined(model: Any, logger: logging.Logger) -> Optional[Workers]:
    """Give this process's place among the workers, None if it is alone. The model may be None.

    Its strategy counts, else the one whose scope this is. TF_CONFIG does not by itself: programs that have nothing to
    do with each other may have it too. Raises ParameterError for parameter servers.
    """
    tf = sys.modules.get("tensorflow")
    if tf is None or loopback():
        return None
    for module in ("horovod.tensorflow", "horovod.tensorflow.keras", "horovod.keras"):
        _hvd_ranks.refuse(module)
    strategy = _strategy(model)
    if strategy is None and tf.distribute.has_strategy():
        strategy = tf.distribute.get_strategy()
    if strategy is None:
        workers = _named()
        if workers > 1:
            logger.warning(
                "TF_CONFIG names %d workers, and no strategy is in use: this process is a peer by itself "
                "(if a %s trains the model, make SwarmCallback within strategy.scope())",
                workers,
                _STRATEGY,
            )
        return None
    if not _spans(strategy):
        _refuse_if_servers(strategy)
        return None
    place = _place(strategy.cluster_resolver)
    return None if place is None else Workers(place, logger)


def refuse_what_is_shared(data: bool, pull: bool, fits: bool) -> None:
    """Raise ParameterError for what workers would have to do together at other times than the program's.

    data: there is adsValData, pull: fedProxMu changes the gradients, fits: Keras 3's fit trains.
    """
    if data:
        raise ParameterError(
            f"adsValData: a {_STRATEGY} can't measure on rank 0 alone",
            "give fit's validation_data, or measure on every rank and call report(loss) there",
        )
    if pull:
        raise ParameterError(
            f"fedProxMu: a {_STRATEGY} adds up the gradients of all workers, and the pull with them",
            "give fedProxHook=False and add fedprox_loss() to the loss, which is divided by the number of replicas",
        )
    if fits:
        raise ParameterError(
            f"fit: of Keras 3 can't train under a {_STRATEGY}",
            "set TF_USE_LEGACY_KERAS=1 and install tf-keras; or give model= and train in a loop of your own",
        )


def refuse_unmet(model: Any) -> None:
    """Raise ParameterError if the model is trained by several workers after all, which have not met."""
    strategy = _strategy(model)
    _refuse_if_servers(strategy)
    if _spans(strategy):
        raise ParameterError(
            "model: is trained by several workers, and SwarmCallback was made as one process's",
            "make it within strategy.scope()",
        )


def own(variable: Any) -> Any:
    """Give what of a variable can be read by one worker alone: itself, or its first replica in this process.

    Reading a statistic that each replica keeps for itself, as Keras 2 has it for BatchNormalization, is a collective.
    """
    value = getattr(variable, "value", None)
    held = variable if value is None or callable(value) else value
    return held.values[0] if _spans(getattr(held, "distribute_strategy", None)) else variable


def _refuse_if_servers(strategy: Any) -> None:
    if type(strategy).__name__.startswith("ParameterServerStrategy"):
        _refuse_servers()


def _refuse_servers() -> NoReturn:
    raise ParameterError(
        "ParameterServerStrategy: keeps the weights on servers, and only a model that a worker has can be merged",
        f"use {_STRATEGY}",
    )


def _strategy(model: Any) -> Any:
    """Give the strategy that a model was made under; None where there is none."""
    found = getattr(model, "distribute_strategy", None)
    tf = sys.modules.get("tensorflow")
    if found is None or tf is None or not isinstance(found, tf.distribute.Strategy):
        return None
    # Without one TensorFlow has a default one, of one device.
    return None if found is tf.distribute.get_strategy() and not tf.distribute.has_strategy() else found


def _spans(strategy: Any) -> bool:
    if strategy is None:
        return False
    # TensorFlow before 2.4 has it under another name, and not as a peer of several ranks here.
    kind = getattr(sys.modules["tensorflow"].distribute, _STRATEGY, None)
    return kind is not None and isinstance(strategy, kind) and _place(strategy.cluster_resolver) is not None


def _named() -> int:
    """Give how many workers TF_CONFIG names; 0 where it can't be read, which is for TensorFlow to say."""
    with suppress(ValueError, TypeError, AttributeError):
        cluster = json.loads(os.environ.get("TF_CONFIG", "")).get("cluster", {})
        return sum(len(cluster.get(job, ())) for job in ("chief", "worker"))
    return 0


def _place(resolver: Any) -> Optional[_Place]:
    """Give what a resolver says of this process; None if it is alone or, as an evaluator, beside the workers."""
    jobs = resolver.cluster_spec().as_dict() if resolver is not None else {}
    # As TensorFlow numbers them: the chief, if there is one, comes first.
    hosts = [(job, index, address) for job in ("chief", "worker") for index, address in _tasks(jobs.get(job, []))]
    for rank, (job, index, _) in enumerate(hosts):
        if len(hosts) > 1 and (job, index) == (resolver.task_type, resolver.task_id):
            return _Place(rank, len(hosts), hosts[0][2].rsplit(":", 1)[0].strip("[]"))
    return None


def _tasks(tasks: Any) -> list[tuple[int, str]]:
    return sorted(tasks.items()) if isinstance(tasks, dict) else list(enumerate(tasks))


def _from_rank_0(strategy: Any, key: bytes) -> bytes:
    """Give every worker the key that rank 0 gives here; the others' must be as long."""
    tf = sys.modules["tensorflow"]
    # Small whole numbers are the same on every device as float32.
    own, nothing = [float(byte) for byte in key], [0.0] * len(key)
    options = tf.distribute.experimental.CommunicationOptions(timeout_seconds=LATE_SECONDS)

    def share() -> Any:
        context = tf.distribute.get_replica_context()
        first = tf.equal(context.replica_id_in_sync_group, 0)
        return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.where(first, own, nothing), options=options)

    try:
        shared = strategy.experimental_local_results(strategy.run(share))[0]
        return bytes(int(number) for number in shared.numpy())
    except (tf.errors.OpError, ValueError, RuntimeError) as err:
        raise RankLostError(
            f"not all workers have begun the training: {one_line(err, MAX_ERROR)}",
            "call on_train_begin on every rank",
        ) from None
