"""FedProx for torch: gradients that pull towards the last merged model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from swarmlearning._prox import Pull
from swarmlearning.errors import ParameterError


class Proximal(Pull):
    """The term mu/2 · ‖w - w_merged‖² over the trainable parameters that are merged.

    With hook its gradient, mu · (w - w_merged), is added to each parameter's in every backward pass, as if the term
    stood in the loss; loss() gives the term itself. Before the first merge there is none.
    """

    def __init__(self, module: torch.nn.Module, mu: float, hook: bool) -> None:
        """Do nothing yet: hooks are set with the first anchor."""
        self._module = module
        self._mu = mu
        self._hook = hook
        self._anchors: dict[str, torch.Tensor] = {}
        self._hooked: dict[str, tuple[torch.Tensor, Any]] = {}

    def anchor(self, shared: Iterable[str]) -> None:
        """Pull towards the present values of these entries of the state_dict from here on."""
        if not self._mu:
            return
        names = set(shared)
        for name, parameter in self._module.named_parameters():
            if name not in names or not parameter.is_floating_point():
                continue
            present, kept = parameter.detach(), self._anchors.get(name)
            if kept is not None and kept.shape == present.shape and kept.dtype == present.dtype:
                self._anchors[name] = kept.to(present.device).copy_(present)
            else:
                self._anchors[name] = present.clone()
            if self._hook:
                self._attach(name, parameter)

    def loss(self) -> torch.Tensor:
        """Give the term, on the parameters' device and differentiable; 0 while there is no merged model."""
        total = torch.zeros(())
        for name, parameter in self._module.named_parameters():
            if name in self._anchors and parameter.requires_grad:
                away = parameter - self._anchors[name].to(parameter.device)
                total = total.to(parameter.device) + self._mu / 2 * away.pow(2).sum()
        return total

    def release(self) -> None:
        """Take the hooks off and forget the merged model."""
        for _, handle in self._hooked.values():
            handle.remove()
        self._hooked.clear()
        self._anchors.clear()

    def _attach(self, name: str, parameter: torch.Tensor) -> None:
        hooked = self._hooked.get(name)
        if hooked is not None and hooked[0] is parameter:
            return
        if hooked is not None:
            hooked[1].remove()
        if not parameter.requires_grad:
            # A frozen one has no gradient; if it thaws, the next merge finds it.
            self._hooked.pop(name, None)
            return

        # Of a leaf of the graph this sees the sum of one backward pass, however often the parameter is used in it.
        def pull(gradient: torch.Tensor) -> torch.Tensor:
            if gradient.layout is not torch.strided:
                raise ParameterError(
                    f'fedProxMu: parameter "{name}" has sparse gradients',
                    "make the layer with sparse=False, or give fedProxHook=False and add fedprox_loss() to the loss",
                )
            anchor = self._anchors.get(name)
            if anchor is None:
                return gradient
            return gradient + self._mu * (parameter.detach() - anchor.to(gradient.device))

        self._hooked[name] = (parameter, parameter.register_hook(pull))
