"""SwarmCallback for models that are a dict of numpy arrays, whatever trains them.

    weights = {"w": w, "b": b}
    callback = SwarmCallback(syncFrequency=50, minPeers=2, weights=weights)

The arrays are overwritten in place by each merge. Where the weights live elsewhere, give functions instead:
get() returns the dict, set(dict) takes the merged one, without what stays local.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Callable, Mapping, Optional, Tuple, Union

import numpy as np

from swarmlearning import _params
from swarmlearning._attributes import Attributes
from swarmlearning._local import LocalLayers
from swarmlearning._params import DEFAULT_CONTRACT
from swarmlearning.base import Engine, Score
from swarmlearning.errors import ModelChangedError, ParameterError
from swarmlearning.layout import Array, Tensor

__all__ = ["Swarm", "SwarmCallback"]

Weights = Mapping[str, Array]
Measured = Union[None, float, Tuple[Optional[float], Optional[float]]]


class SwarmCallback(Attributes):
    """Merges named numpy arrays with the other peers every syncFrequency batches.

    Beside the parameters of all callbacks: either weights (a dict of writable arrays, merged in place) or get and set;
    evaluate, a function that returns the loss or (loss, metric) of the present weights.

    useAdaptiveSync needs a loss of each merged model: from evaluate, or from a program that calls report(loss) whenever
    round has changed. localLayers are names or patterns of arrays that stay with this peer; fedProxMu is the strength
    of FedProx's pull towards the last merged model, which fedprox_gradients() gives. With overlap=True the training
    goes on while a merge travels: the merged model comes one interval late, and what was learnt meanwhile is kept on
    top of it. set is then called with both, so useAdaptiveSync needs evaluate.
    """

    ml_platform = "NUMPY"
    _framework = "numpy"

    def __init__(
        self, syncFrequency: Any, minPeers: Any, trainingContract: Any = DEFAULT_CONTRACT, **kwargs: Any
    ) -> None:
        """Check every parameter; a wrong one is a SwarmError."""
        options = dict(kwargs)
        logger = _params.default_logger(options.pop("logger", None))
        weights, get, put = options.pop("weights", None), options.pop("get", None), options.pop("set", None)
        evaluate = options.pop("evaluate", None)
        if evaluate is not None and not callable(evaluate):
            raise ParameterError(f"evaluate: {evaluate!r} is not allowed", "give a function")
        if weights is not None:
            if not isinstance(weights, Mapping) or get is not None or put is not None:
                raise ParameterError("weights: is no dict, or stands beside get and set", "give one of the two forms")
            get, put = _in_place(weights)
        if not callable(get) or not callable(put):
            raise ParameterError("weights: is missing", "give weights, or get and set")
        local = LocalLayers(options.pop("localLayers", None))
        self._mu = _params.strength("fedProxMu", options.pop("fedProxMu", None))
        # Validation is what evaluate does, or a program that reports by itself.
        options["adsValData"] = evaluate or True
        params = _params.check(syncFrequency, minPeers, trainingContract, options, self.ml_platform, logger)
        if params.overlap and params.adaptive and evaluate is None:
            raise ParameterError(
                "useAdaptiveSync: with overlap a program can not measure the merged model itself", "give evaluate too"
            )
        self._model = _Dict(get, put, evaluate, local, keep=self._mu > 0)
        self._engine = Engine(params, self._model, self._framework, logger)

    def fedprox_gradients(self) -> dict[str, Array]:
        """Give fedProxMu · (w - w_merged) for each merged array of floats, to be added to the loss's gradients.

        Empty when fedProxMu is 0 and before the first merge.
        """
        return {name: (self._mu * away).astype(away.dtype) for name, away in self._model.away().items()}

    def on_train_begin(self) -> None:
        """Join the swarm; blocks until minPeers are there and loads the first merged model."""
        self._engine.train_begin()

    def on_batch_end(self, batch: Optional[int] = None, samples: Optional[int] = None) -> None:
        """Count a batch, of so many samples; blocks for a merge when it is time for one.

        With overlap it blocks for the one before.
        """
        self._engine.batch_end(samples)

    def on_epoch_end(self, epoch: Optional[int] = None) -> None:
        """Count an epoch; measures the model if evaluate was given."""
        self._engine.epoch_end()

    def on_train_end(self) -> None:
        """Blocks until the swarm has finished and loads the final model."""
        self._engine.train_end()


# What programs that are no callback users may prefer to call it.
Swarm = SwarmCallback


class _Dict:
    """A dict of arrays as the engine's model."""

    def __init__(
        self,
        get: Callable[[], Weights],
        put: Callable[[dict[str, Array]], None],
        evaluate: Optional[Callable[[], Measured]],
        local: LocalLayers,
        keep: bool,
    ) -> None:
        self._get = get
        self._put = put
        self._evaluate = evaluate
        self.metric_name = ""
        self._local = local
        self._keep = keep
        self._merged: dict[str, Array] = {}

    def snapshot(self) -> Iterator[tuple[Tensor, Array]]:
        for name, array in self._shared():
            dtype = array.dtype.name
            bits = array.view(np.uint16) if dtype == "bfloat16" else array  # of the package ml_dtypes
            yield Tensor(str(name), dtype, array.shape), bits

    def load(self, arrays: Sequence[Array], merged: bool = True) -> None:
        present = self._shared()
        if len(present) != len(arrays):
            raise ModelChangedError(f"model has {len(present)} tensors, the merged one {len(arrays)}")
        values = {}
        for (name, value), array in zip(present, arrays):
            owned = np.array(array, dtype=array.dtype.newbyteorder("="), copy=True)
            values[name] = owned.view(value.dtype) if value.dtype.name == "bfloat16" else owned
        if self._keep and merged:
            self._merged = {name: value.copy() for name, value in values.items() if value.dtype.kind == "f"}
        self._put(values)

    def learned(self) -> list[bool]:
        # Which floats are statistics is not known here.
        return [True] * len(self._shared())

    def away(self) -> dict[str, Array]:
        """Give how far the arrays of floats are from the last merged ones."""
        return {name: value - self._merged[name] for name, value in self._shared() if name in self._merged}

    def _shared(self) -> list[tuple[str, Array]]:
        """Give the arrays that are merged."""
        present = [(name, np.asarray(value)) for name, value in self._get().items()]
        kept = self._local.shared([(str(name),) for name, _ in present])
        return [item for item, merged in zip(present, kept) if merged]

    def evaluate(self) -> Optional[Score]:
        if self._evaluate is None:
            return None
        measured = self._evaluate()
        if measured is None:
            return None
        if isinstance(measured, tuple):
            loss, metric = measured
            return None if loss is None else float(loss), None if metric is None else float(metric)
        return float(measured), None


def _in_place(weights: Weights) -> tuple[Callable[[], Weights], Callable[[dict[str, Array]], None]]:
    for name, value in weights.items():
        if not isinstance(value, np.ndarray) or not value.flags.writeable:
            raise ParameterError(f'weights: "{name}" is no writable numpy array', "give get and set instead")

    def put(merged: dict[str, Array]) -> None:
        for name, value in merged.items():
            weights[name][...] = value

    return lambda: weights, put
