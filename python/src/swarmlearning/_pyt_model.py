"""A torch module as the engine's model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Optional

import numpy as np
import torch

from swarmlearning._local import LocalLayers
from swarmlearning._pyt_prox import Proximal
from swarmlearning._pyt_score import Evaluator
from swarmlearning.base import Score
from swarmlearning.errors import DTypeError, ModelChangedError, ParameterError, one_line
from swarmlearning.layout import Array, Tensor


class Module:
    """The state_dict of a torch module, buffers included, without what stays local."""

    def __init__(
        self,
        module: torch.nn.Module,
        evaluator: Optional[Evaluator],
        local: LocalLayers,
        proximal: Proximal,
        only: Optional[Collection[str]] = None,
    ) -> None:
        """Take the module; evaluator is None when there is no validation data, only when every entry may be merged."""
        self._module = module
        self._only = only
        self._evaluator = evaluator
        self.metric_name = "" if evaluator is None else evaluator.metric_name
        self._local = local
        self._proximal = proximal

    def snapshot(self) -> Iterator[tuple[Tensor, Array]]:
        """See base.Model."""
        for name, value in self._shared(self._module.state_dict()).items():
            yield _describe(name, value), _to_numpy(value)

    def load(self, arrays: Sequence[Array], merged: bool = True) -> None:
        """See base.Model."""
        present = self._module.state_dict()
        shared = self._shared(present)
        if len(shared) != len(arrays):
            raise ModelChangedError(f"model has {len(shared)} tensors, the merged one {len(arrays)}")
        state = {name: _to_torch(array, value) for (name, value), array in zip(shared.items(), arrays)}
        self._put(state, strict=len(state) == len(present))
        if _same_memory(state, self._module.state_dict()):
            # Some modules keep a tensor that they are given; the slot's memory is only lent.
            self._put({name: value.clone() for name, value in state.items()}, strict=len(state) == len(present))
        if merged:
            self._proximal.anchor(shared)

    def parameters(self) -> list[torch.nn.Parameter]:
        """Give those that are merged."""
        entries = self._shared(self._module.state_dict(keep_vars=True)).values()
        return [value for value in entries if isinstance(value, torch.nn.Parameter)]

    def learned(self) -> list[bool]:
        """See base.Model."""
        state = self._module.state_dict(keep_vars=True)
        return [isinstance(state[name], torch.nn.Parameter) for name in self._shared(state)]

    def _put(self, state: Mapping[str, torch.Tensor], strict: bool) -> None:
        # Strict: a tensor that does not fit is an error, whatever the module's own loading says. It copies in place, so
        # optimizers keep their parameters.
        try:
            self._module.load_state_dict(state, strict=strict)
        except RuntimeError as err:
            raise ModelChangedError(f"load the merged model: {one_line(err)}") from None

    def _shared(self, state: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """Give the entries that are merged."""
        names = [name for name in state if self._only is None or name in self._only]
        kept = {name for name, merged in zip(names, self._local.shared([(name,) for name in names])) if merged}
        shared = {name: _tensor(name, value) for name, value in state.items() if name in kept}
        if self._local:
            _check_apart(shared, {name: value for name, value in state.items() if name not in kept})
        return shared

    def evaluate(self) -> Optional[Score]:
        """See base.Model."""
        if self._evaluator is None:
            return None
        score = self._evaluator.measure()
        # What was not asked for has its name once it was measured.
        self.metric_name = self._evaluator.metric_name
        return score


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


def _same_memory(some: Mapping[str, torch.Tensor], others: Mapping[str, Any]) -> bool:
    """Report whether a tensor has its elements where the one of the same name has them."""
    return any(
        isinstance(others.get(name), torch.Tensor) and others[name].data_ptr() == value.data_ptr()
        for name, value in some.items()
        if value.numel()
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
    """View an array of the slot; copy it where its byte order is not the machine's, which torch demands."""
    native = np.asarray(array, dtype=array.dtype.newbyteorder("="))
    if like.dtype == torch.bfloat16:
        return torch.from_numpy(native.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(native)
