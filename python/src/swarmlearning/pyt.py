"""SwarmCallback for PyTorch: the training loop calls its four hooks.

callback = SwarmCallback(syncFrequency=128, minPeers=2, model=model, totalEpochs=epochs,
                         adsValData=loader, lossFunction="CrossEntropyLoss")
callback.on_train_begin()
for epoch in range(epochs):
    for batch in data:
        ...
        callback.on_batch_end()
    callback.on_epoch_end(epoch)
callback.on_train_end()
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

import numpy as np
import torch

from swarmlearning import _params
from swarmlearning._attributes import Attributes
from swarmlearning._local import LocalLayers
from swarmlearning._params import DEFAULT_CONTRACT
from swarmlearning._pyt_prox import Proximal
from swarmlearning._pyt_score import DEFAULT_BATCH, MISSING_LOSS, Evaluator, loader
from swarmlearning.base import Engine, Score
from swarmlearning.errors import DTypeError, ModelChangedError, ParameterError
from swarmlearning.layout import Array, Tensor

__all__ = ["SwarmCallback"]


class SwarmCallback(Attributes):
    """Merges a torch.nn.Module with the other peers every syncFrequency batches.

    Parameters as in the original: syncFrequency, minPeers, trainingContract, model (required), totalEpochs,
    checkinModelOnTrainEnd, nodeWeightage, mergeMethod, useAdaptiveSync, adsValData (a DataLoader, or a Dataset, which
    adsValBatchSize samples at a time are taken of, 32 if it is not given), lossFunction,
    lossFunctionArgs, metricFunction, metricFunctionArgs (names in torch.nn and torchmetrics, or callables), logger.
    The whole state_dict is merged, buffers included; optimizer state stays as it is.

    Beyond it: mergeParams (a dict, like {"f": 1} for mergeMethod="krum"); localLayers, names or patterns of entries of
    the state_dict that stay with this peer, like ["head", "bn*.running_*"]; fedProxMu, which pulls the training towards
    the last merged model (FedProx, 0 turns it off). The pull is added to the gradients of every backward pass, so a
    program needs no change. Where that is not the loss's own gradient (a GradScaler scales it, or several passes make
    one step), give fedProxHook=False and add fedprox_loss() to the loss. With overlap=True the training goes on while
    a merge travels: the merged model comes one interval late, and what was learnt meanwhile is kept on top of it.
    """

    ml_platform = "PYTORCH"

    def __init__(
        self, syncFrequency: Any, minPeers: Any, trainingContract: Any = DEFAULT_CONTRACT, **kwargs: Any
    ) -> None:
        """Check every parameter; a wrong one is a SwarmError."""
        options = dict(kwargs)
        logger = _params.default_logger(options.pop("logger", None))
        model = options.pop("model", None)
        if not isinstance(model, torch.nn.Module):
            raise ParameterError(f"model: {type(model).__name__} is not allowed", "give the torch.nn.Module to train")
        scoring = {name: options.pop(name, None) for name in _SCORING}
        batch_size = _params.positive("adsValBatchSize", options.pop("adsValBatchSize", None) or DEFAULT_BATCH)
        lenient = bool(options.pop("_lenientScore", False))
        local = LocalLayers(options.pop("localLayers", None))
        mu = _params.strength("fedProxMu", options.pop("fedProxMu", None))
        hook = _params.boolean("fedProxHook", options.pop("fedProxHook", True))
        params = _params.check(syncFrequency, minPeers, trainingContract, options, self.ml_platform, logger)
        evaluator: Optional[Evaluator] = None
        if options.get("adsValData") is not None:
            if params.adaptive and scoring["lossFunction"] is None:
                raise ParameterError("useAdaptiveSync: is on without lossFunction", MISSING_LOSS)
            evaluator = Evaluator(model, loader(options["adsValData"], batch_size), scoring, logger, lenient)
        self._proximal = Proximal(model, mu, hook)
        self._engine = Engine(params, _Module(model, evaluator, local, self._proximal), "pyt", logger)

    def fedprox_loss(self) -> torch.Tensor:
        """Give FedProx's term fedProxMu/2 · ‖w - w_merged‖² to be added to the loss; for fedProxHook=False."""
        return self._proximal.loss()

    def on_train_begin(self) -> None:
        """Join the swarm; blocks until minPeers are there and loads the first merged model."""
        with self._proximal.released_on_failure():
            self._engine.train_begin()

    def on_batch_end(self, batch: Optional[int] = None) -> None:
        """Count a batch; blocks for a merge when it is time for one, with overlap for the one before."""
        with self._proximal.released_on_failure():
            self._engine.batch_end()

    def on_epoch_end(self, epoch: Optional[int] = None) -> None:
        """Count an epoch; measures the model if validation data was given."""
        with self._proximal.released_on_failure():
            self._engine.epoch_end()

    def on_train_end(self) -> None:
        """Blocks until the swarm has finished and loads the final model."""
        with self._proximal.released_on_failure():
            self._engine.train_end()
        self._proximal.release()


_SCORING = ("lossFunction", "lossFunctionArgs", "metricFunction", "metricFunctionArgs")


class _Module:
    """A torch module as the engine's model."""

    def __init__(
        self, module: torch.nn.Module, evaluator: Optional[Evaluator], local: LocalLayers, proximal: Proximal
    ) -> None:
        self._module = module
        self._evaluator = evaluator
        self._local = local
        self._proximal = proximal

    def snapshot(self) -> Iterator[tuple[Tensor, Array]]:
        for name, value in self._shared(self._module.state_dict()).items():
            yield _describe(name, value), _to_numpy(value)

    def load(self, arrays: Sequence[Array], merged: bool = True) -> None:
        state = dict(self._module.state_dict())
        shared = self._shared(state)
        if len(shared) != len(arrays):
            raise ModelChangedError(f"model has {len(shared)} tensors, the merged one {len(arrays)}")
        for (name, value), array in zip(shared.items(), arrays):
            state[name] = _to_torch(array, value)
        # Strict: a tensor that does not fit is an error. It copies in place, so optimizers keep their parameters.
        try:
            self._module.load_state_dict(state, strict=True)
        except RuntimeError as err:
            raise ModelChangedError(f"load the merged model: {' '.join(str(err).split())}") from None
        if merged:
            self._proximal.anchor(shared)

    def learned(self) -> list[bool]:
        state = self._module.state_dict(keep_vars=True)
        return [isinstance(state[name], torch.nn.Parameter) for name in self._shared(state)]

    def _shared(self, state: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """Give the entries that are merged."""
        merged = dict(zip(state, self._local.shared([(name,) for name in state])))
        shared = {name: _tensor(name, value) for name, value in state.items() if merged[name]}
        if self._local:
            _check_apart(shared, {name: value for name, value in state.items() if not merged[name]})
        return shared

    def evaluate(self) -> Optional[Score]:
        return None if self._evaluator is None else self._evaluator.measure()


def _tensor(name: str, value: Any) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        raise DTypeError(
            f'entry "{name}" of the state_dict is a {type(value).__name__}, only tensors can be merged',
            "keep it out of the state_dict, or name it in localLayers",
        )
    return value


def _check_apart(shared: Mapping[str, torch.Tensor], local: Mapping[str, Any]) -> None:
    """Refuse a local tensor that is tied to a merged one: the merge would overwrite it."""
    places = {(value.device, value.data_ptr()): name for name, value in shared.items() if value.numel()}
    for name, value in local.items():
        twin = places.get((value.device, value.data_ptr())) if isinstance(value, torch.Tensor) else None
        if twin is not None and value.numel():
            raise ParameterError(
                f'localLayers: "{name}" is tied to "{twin}", which is merged', f'name "{twin}" too, or neither'
            )


def _describe(name: str, value: torch.Tensor) -> Tensor:
    if value.layout is not torch.strided or value.is_quantized:
        raise DTypeError(f'tensor "{name}" is sparse or quantized, only dense tensors can be merged')
    return Tensor(name, str(value.dtype).replace("torch.", ""), tuple(value.shape))


def _to_numpy(value: torch.Tensor) -> Array:
    value = value.detach().cpu()
    if value.dtype == torch.bfloat16:
        # numpy has no bfloat16: its bits travel as integers.
        bits: Array = value.contiguous().view(torch.int16).numpy().view(np.uint16)
        return bits
    array: Array = value.resolve_neg().numpy()
    return array


def _to_torch(array: Array, like: torch.Tensor) -> torch.Tensor:
    # A copy: the slot is read-only and torch knows no such tensors. Native byte order, which torch demands.
    owned = np.array(array, dtype=array.dtype.newbyteorder("="), order="C", copy=True)
    if like.dtype == torch.bfloat16:
        return torch.from_numpy(owned.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(owned)
