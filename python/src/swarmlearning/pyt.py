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
from swarmlearning._params import DEFAULT_CONTRACT
from swarmlearning._pyt_score import Evaluator
from swarmlearning.base import Engine, Score
from swarmlearning.errors import DTypeError, ModelChangedError, ParameterError
from swarmlearning.layout import Array, Tensor

__all__ = ["SwarmCallback"]


class SwarmCallback:
    """Merges a torch.nn.Module with the other peers every syncFrequency batches.

    Parameters as in the original: syncFrequency, minPeers, trainingContract, model (required), totalEpochs,
    checkinModelOnTrainEnd, nodeWeightage, mergeMethod, useAdaptiveSync, adsValData (a DataLoader), lossFunction,
    lossFunctionArgs, metricFunction, metricFunctionArgs (names in torch.nn and torchmetrics, or callables), logger.
    The whole state_dict is merged, buffers included; optimizer state stays as it is.
    """

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
        lenient = bool(options.pop("_lenientScore", False))
        params = _params.check(syncFrequency, minPeers, trainingContract, options, logger)
        evaluator: Optional[Evaluator] = None
        if options.get("adsValData") is not None:
            evaluator = Evaluator(model, options["adsValData"], scoring, logger, lenient)
        self._engine = Engine(params, _Module(model, evaluator), "pyt", logger)

    @property
    def training_over(self) -> bool:
        """True when the swarm has finished; the loop may break and call on_train_end, which loads the final model."""
        return self._engine.training_over

    def on_train_begin(self) -> None:
        """Join the swarm; blocks until minPeers are there and loads the first merged model."""
        self._engine.train_begin()

    def on_batch_end(self, batch: Optional[int] = None) -> None:
        """Count a batch; blocks for a merge when it is time for one."""
        self._engine.batch_end()

    def on_epoch_end(self, epoch: Optional[int] = None) -> None:
        """Count an epoch; measures the model if validation data was given."""
        self._engine.epoch_end()

    def on_train_end(self) -> None:
        """Blocks until the swarm has finished and loads the final model."""
        self._engine.train_end()


_SCORING = ("lossFunction", "lossFunctionArgs", "metricFunction", "metricFunctionArgs", "adsValBatchSize")


class _Module:
    """A torch module as the engine's model."""

    def __init__(self, module: torch.nn.Module, evaluator: Optional[Evaluator]) -> None:
        self._module = module
        self._evaluator = evaluator

    def snapshot(self) -> Iterator[tuple[Tensor, Array]]:
        for name, value in _state(self._module).items():
            yield _describe(name, value), _to_numpy(value)

    def load(self, arrays: Sequence[Array]) -> None:
        state = _state(self._module)
        if len(state) != len(arrays):
            raise ModelChangedError(f"model has {len(state)} tensors, the merged one {len(arrays)}")
        merged = {name: _to_torch(array, value) for (name, value), array in zip(state.items(), arrays)}
        # Strict: a tensor that does not fit is an error. It copies in place, so optimizers keep their parameters.
        try:
            self._module.load_state_dict(merged, strict=True)
        except RuntimeError as err:
            raise ModelChangedError(f"load the merged model: {' '.join(str(err).split())}") from None

    def evaluate(self) -> Optional[Score]:
        return None if self._evaluator is None else self._evaluator.measure()


def _state(module: torch.nn.Module) -> Mapping[str, torch.Tensor]:
    state: Mapping[str, torch.Tensor] = module.state_dict()
    for name, value in state.items():
        if not isinstance(value, torch.Tensor):
            raise DTypeError(
                f'entry "{name}" of the state_dict is a {type(value).__name__}, only tensors can be merged',
                "keep it out of the state_dict",
            )
    return state


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
