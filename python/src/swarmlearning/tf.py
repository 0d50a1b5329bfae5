"""SwarmCallback for Keras, versions 2 and 3: give it to model.fit(callbacks=[...])."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable, Optional

import numpy as np

from swarmlearning import _params
from swarmlearning._attributes import Attributes
from swarmlearning._local import LocalLayers
from swarmlearning._params import DEFAULT_CONTRACT
from swarmlearning._rank_weights import SAMPLED, stride, sums
from swarmlearning._ranks import Ranks
from swarmlearning._tf_prox import Proximal
from swarmlearning._tf_ranks import APART_REMEDY, joined, own, refuse_unmet, refuse_what_is_shared
from swarmlearning.base import Engine, Score
from swarmlearning.errors import ModelChangedError, ParameterError, SwarmError, one_line
from swarmlearning.layout import Array, Tensor

try:
    # The Keras that belongs to the installed TensorFlow, which is Keras 2 before TensorFlow 2.16.
    from tensorflow import keras
except ImportError:
    import keras

__all__ = ["SwarmCallback"]

# Whether this is Keras 3, or a later one.
_THREE = not str(getattr(keras, "__version__", "2.")).startswith("2.")


class SwarmCallback(Attributes, keras.callbacks.Callback):  # type: ignore[misc]
    """Merges a Keras model with the other peers every syncFrequency batches.

    Parameters as in the original: syncFrequency, minPeers, trainingContract, totalEpochs, checkinModelOnTrainEnd,
    nodeWeightage, mergeMethod, useAdaptiveSync, adsValData (a tuple (x, y) or (x, y, sample_weight), or a dataset),
    adsValBatchSize, model (only when the hooks are called by hand), logger. When the swarm has finished before the
    program it sets model.stop_training.

    Beyond it: mergeParams (a dict, like {"f": 1} for mergeMethod="krum"); localLayers, names or patterns of layers and
    weights that stay with this peer, like ["head", "bn*/moving_*"]; fedProxMu, which pulls the training towards the
    last merged model (FedProx, 0 turns it off; needs the TensorFlow backend). The pull is added to the gradients that
    the compiled model's optimizer applies. A training loop with an optimizer of its own gives fedProxHook=False and
    adds fedprox_loss() to its loss. With overlap=True the training goes on while a merge travels: the merged model
    comes one interval late, and what was learnt meanwhile is kept on top of it.
    """

    ml_platform = "KERAS"

    def __init__(
        self, syncFrequency: Any, minPeers: Any, trainingContract: Any = DEFAULT_CONTRACT, **kwargs: Any
    ) -> None:
        """Check every parameter; a wrong one is a SwarmError."""
        super().__init__()
        options = dict(kwargs)
        self._logger = _params.default_logger(options.pop("logger", None))
        model = options.pop("model", None)
        self._workers = joined(model, self._logger)
        ranks = self._ranks = None if self._workers is None else Ranks(self._workers, self._logger)
        if ranks is not None and not ranks.leads:
            self._logger = ranks.quiet(self._logger)
        batch_size = options.pop("adsValBatchSize", None)
        if batch_size is not None:
            batch_size = _params.positive("adsValBatchSize", batch_size)
        for name in ("lossFunction", "lossFunctionArgs", "metricFunction", "metricFunctionArgs"):
            if options.pop(name, None) is not None:
                self._logger.warning("parameter %s has no effect: Keras measures as the model was compiled", name)
        lenient = bool(options.pop("_lenientScore", False))
        local = LocalLayers(options.pop("localLayers", None))
        mu = _params.strength("fedProxMu", options.pop("fedProxMu", None))
        hook = _params.boolean("fedProxHook", options.pop("fedProxHook", True))
        self._proximal = Proximal(mu, hook)
        for name in ("tf", "sess"):
            if options.pop(name, None) is not None:
                _params.refuse_graphs(name)
        params = _params.check(syncFrequency, minPeers, trainingContract, options, self.ml_platform, self._logger)
        data = options.get("adsValData")
        if ranks is not None:
            refuse_what_is_shared(data is not None, bool(mu and hook), _THREE and model is None)
            self._alike = {**params.shared(), "fedProxMu": str(mu)}
        self._adapter = _KerasModel(data, batch_size, self._logger, lenient)
        self._adapter.local, self._adapter.merged = local, self._proximal.anchor
        self._engine = Engine(params, self._adapter, "tf", self._logger, ranks)
        if model is not None:
            self.set_model(model)

    def fedprox_loss(self) -> Any:
        """Give FedProx's term fedProxMu/2 · ‖w - w_merged‖² to be added to the loss; for fedProxHook=False."""
        return self._proximal.loss()

    def set_model(self, model: Any) -> None:
        """Take the model to merge; Keras calls this before training."""
        super().set_model(model)
        self._adapter.model = model

    def on_train_begin(self, logs: Optional[Mapping[str, Any]] = None) -> None:
        """Join the swarm; blocks until minPeers are there and loads the first merged model."""
        if self._adapter.model is None:
            raise ParameterError("model: is missing", "give the callback to fit(callbacks=[...]), or give model=")
        self._meet_ranks()
        with self._proximal.released_on_failure():
            if not self._engine.loopback:
                self._proximal.attach(self._adapter.model)
            self._engine.train_begin()
        self._stop_if_over()

    def on_batch_end(
        self, batch: Any = None, logs: Optional[Mapping[str, Any]] = None, samples: Optional[int] = None
    ) -> None:
        """Count a batch, of so many samples; blocks for a merge when it is time for one.

        With overlap it blocks for the one before.
        """
        with self._proximal.released_on_failure():
            self._engine.batch_end(samples)
        self._stop_if_over()

    def on_train_batch_end(self, batch: Any, logs: Optional[Mapping[str, Any]] = None) -> None:
        """Do what on_batch_end does; Keras calls this one."""
        self.on_batch_end(batch, logs)

    def on_epoch_end(self, epoch: Any = None, logs: Optional[Mapping[str, Any]] = None) -> None:
        """Count an epoch; measures the model on adsValData; without it takes what fit measured on its own data."""
        self._take_validation(logs or {})
        with self._proximal.released_on_failure():
            self._engine.epoch_end()

    def on_train_end(self, logs: Optional[Mapping[str, Any]] = None) -> None:
        """Blocks until the swarm has finished and loads the final model."""
        with self._proximal.released_on_failure():
            self._engine.train_end()
        self._proximal.release()

    def _meet_ranks(self) -> None:
        """Connect with the other ranks of this peer, if there are some, and compare parameters, once."""
        if self._engine.loopback:
            return
        if self._ranks is None or self._workers is None:
            refuse_unmet(self._adapter.model)
        elif self._workers.connect(self._adapter.model):
            try:
                self._ranks.watch(lambda batches: sums(self._adapter.samples(), batches), APART_REMEDY)
                self._ranks.agree(self._alike)
            except BaseException:
                self._workers.leave()
                raise

    def _take_validation(self, logs: Mapping[str, Any]) -> None:
        if self._adapter.measures or logs.get("val_loss") is None:
            return
        name = next((name for name in logs if name.startswith("val_") and name != "val_loss"), "")
        self._engine.told(float(logs["val_loss"]), float(logs[name]) if name else None, name[len("val_") :])

    def _stop_if_over(self) -> None:
        if self._engine.training_over:
            self._adapter.model.stop_training = True


class _KerasModel:
    """A Keras model as the engine's model."""

    def __init__(self, data: Any, batch_size: Optional[int], logger: logging.Logger, lenient: bool) -> None:
        if isinstance(data, tuple) and len(data) not in (2, 3):
            raise ParameterError(
                f"adsValData: a tuple of {len(data)} is not allowed", "give (x, y), (x, y, sample_weight) or a dataset"
            )
        self.model: Any = None
        self.metric_name = ""
        self.local = LocalLayers(None)
        self.merged: Callable[[Sequence[Any]], None] = lambda weights: None
        self._data = data
        self._batch_size = batch_size
        self._logger = logger
        self._lenient = lenient
        self._broken = False

    def snapshot(self) -> Iterator[tuple[Tensor, Array]]:
        if not self._all():
            raise ParameterError("model: has no weights yet", "build it first: an Input layer or model.build(shape)")
        for index, variable in enumerate(self._shared()):
            array = _value(variable)
            dtype = array.dtype.name
            if dtype == "bfloat16":
                array = array.view(np.uint16)
            yield Tensor(_name(index, variable), dtype, tuple(array.shape)), array

    def load(self, arrays: Sequence[Array], merged: bool = True) -> None:
        weights = self._shared()
        if len(weights) != len(arrays):
            raise ModelChangedError(f"model has {len(weights)} weights, the merged one {len(arrays)}")
        for variable, array in zip(weights, arrays):
            dtype = _value(variable).dtype
            owned = np.array(array, dtype=array.dtype.newbyteorder("="), order="C", copy=True)
            variable.assign(owned.view(dtype) if dtype.name == "bfloat16" else owned)
        if merged:
            self.merged(weights)

    def learned(self) -> list[bool]:
        # Not the variables' own mark: Keras 2 leaves it as it is when a layer is frozen.
        trained = {id(variable) for variable in self.model.trainable_weights}
        return [id(variable) in trained for variable in self._shared()]

    def samples(self) -> Iterator[tuple[str, Array]]:
        """Give what ranks compare of the weights that are trained, with its type."""
        for variable, trained in zip(self._shared(), self.learned()):
            if trained:
                flat = _value(variable).ravel()
                yield flat.dtype.name, flat[:: stride(flat.size)][:SAMPLED]

    def _shared(self) -> list[Any]:
        """Give the weights that are merged."""
        weights = self._all()
        kept = self.local.shared([_names(variable) for variable in weights])
        return [variable for variable, merged in zip(weights, kept) if merged]

    def _all(self) -> list[Any]:
        try:
            weights: list[Any] = self.model.weights
        except ValueError:  # Keras 2: they have not been made yet
            return []
        return weights

    @property
    def measures(self) -> bool:
        """Whether there is validation data of the callback's own."""
        return self._data is not None

    def evaluate(self) -> Optional[Score]:
        if self._data is None or self._broken:
            return None
        # evaluate() resets the metrics that fit() is just collecting for its own log.
        kept = [(variable, _value(variable).copy()) for variable in self._metric_variables()]
        try:
            return self._measure()
        except (ValueError, TypeError, RuntimeError) as err:
            if not self._lenient:
                raise SwarmError(
                    f"measure loss on adsValData: {one_line(err)}",
                    "check adsValData against the model's inputs",
                    reason="EVALUATION",
                ) from err
            self._broken = True
            self._logger.warning("loss can not be measured on the validation data: %s", err)
            return None
        finally:
            for variable, value in kept:
                variable.assign(value)

    def _metric_variables(self) -> list[Any]:
        variables: dict[int, Any] = {}
        for metric in getattr(self.model, "metrics", None) or []:
            for variable in metric.variables:
                variables[id(variable)] = variable
        return list(variables.values())

    def _measure(self) -> Score:
        options: dict[str, Any] = {"verbose": 0}
        if self._batch_size is not None and isinstance(self._data, tuple):
            options["batch_size"] = self._batch_size
        # Only a tuple is taken apart: a dataset of two batches has a length of two as well.
        if isinstance(self._data, tuple):
            x, y, *rest = self._data
            scores = self.model.evaluate(x, y, sample_weight=rest[0] if rest else None, **options)
        else:
            scores = self.model.evaluate(self._data, **options)
        values = [float(score) for score in np.ravel(scores)]
        if len(values) < 2:
            return values[0], None
        self.metric_name = self._name_of(values[1])
        return values[0], values[1]

    def _name_of(self, value: float) -> str:
        """Give the name of the compiled metric that has just been measured; metrics_names has Keras 3's container."""
        results: dict[str, Any] = getattr(self.model, "get_metrics_result", dict)()
        return next((str(name) for name, result in results.items() if name != "loss" and float(result) == value), "")


def _value(variable: Any) -> Array:
    value: Array = np.asarray(own(variable).numpy())
    return value


def _path(variable: Any) -> str:
    """Give "model/layer/weight", with Keras 2 "layer/weight"."""
    return str((_has_path(variable) and variable.path) or variable.name).split(":", 1)[0]


def _has_path(variable: Any) -> bool:
    # A variable of TensorFlow itself has none, and is not to be asked: one that each replica keeps for itself looks for
    # what it does not know in its value, which is a collective.
    return not callable(getattr(variable, "value", None)) and hasattr(variable, "path")


def _names(variable: Any) -> tuple[str, ...]:
    """Give what localLayers may call a weight: "model/head/kernel" or "head/kernel", also with dots."""
    path = _path(variable)
    inner = path.split("/", 1)[-1] if _has_path(variable) else path
    return tuple(dict.fromkeys((inner, path, inner.replace("/", "."), path.replace("/", "."))))


def _name(index: int, variable: Any) -> str:
    # Neither names nor paths are unique or equal on all peers (dense against dense_1), the order is.
    name = _path(variable).rsplit("/", 1)[-1]
    return f"{index}.{name}"[:200]
