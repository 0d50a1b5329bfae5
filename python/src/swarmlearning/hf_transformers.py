"""SwarmCallback for Hugging Face transformers: give it to Trainer(callbacks=[...])."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any, Optional

import torch
import transformers

from swarmlearning._params import DEFAULT_CONTRACT
from swarmlearning._pyt_callback import TorchCallback
from swarmlearning._pyt_score import Evaluator
from swarmlearning.errors import ModelChangedError, ParameterError, SwarmError

__all__ = ["SwarmCallback"]

_MODES = ("full", "peft")


class _Evaluator(Evaluator):
    """Measures models that give their loss themselves, on batches that are mappings."""

    models_loss = True
    collate = staticmethod(transformers.default_data_collator)

    def _apply(self, batch: Any, device: torch.device) -> tuple[Any, Any, int, float]:
        if not isinstance(batch, Mapping):
            return super()._apply(batch, device)
        moved = {name: item.to(device) if hasattr(item, "to") else item for name, item in batch.items()}
        output = self._module(**moved)
        target = moved.get("labels")
        if target is None:
            raise SwarmError("adsValData has no labels", "give samples that have labels, by that name")
        size = int(target.shape[0])
        if self._loss is not None:
            return output.logits, target, size, self._loss.sum(output.logits, target, size)
        return output.logits, target, size, float(output.loss) * size


class SwarmCallback(TorchCallback, transformers.TrainerCallback):  # type: ignore[misc]
    """Merges the model of a transformers.Trainer with the other peers every syncFrequency optimizer steps.

    Parameters as in swarmlearning.pyt, and hfMode: "full" merges the whole state_dict, "peft" the model's adapters
    alone, that is what PEFT trains of it; the base model stays as it is and is never sent. Without hfMode adapters
    alone are merged if the model has some. adsValData is a DataLoader or a Dataset whose samples have labels; the loss
    is the model's own unless lossFunction is given. When the swarm has finished before the program, the Trainer is told
    to stop.
    """

    ml_platform = "HF_TRANSFORMER"
    _framework = "hf"
    _evaluator = _Evaluator

    def __init__(
        self, syncFrequency: Any, minPeers: Any, trainingContract: Any = DEFAULT_CONTRACT, **kwargs: Any
    ) -> None:
        """Check every parameter; a wrong one is a SwarmError."""
        self._set_up(syncFrequency, minPeers, trainingContract, kwargs)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Join the swarm; blocks until minPeers are there and loads the first merged model."""
        if kwargs.get("model", self._model) is not self._model:
            raise ModelChangedError(
                "the Trainer trains another model than the SwarmCallback was given",
                "give both the same one: Trainer(model=model, ...), without model_init",
            )
        self._engine.found_data(kwargs.get("train_dataloader"))
        self._train_begin(_sharder(args))
        return self._stopped_if_over(control)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Count an optimizer step; blocks for a merge when it is time for one, with overlap for the one before."""
        # The last batch of an epoch may have fewer.
        self._batch_end(args.train_batch_size * args.gradient_accumulation_steps)
        return self._stopped_if_over(control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Count an epoch; measures the model if validation data was given."""
        self._epoch_end()
        return control

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Take what the Trainer measured on its own validation data, unless adsValData was given."""
        measured = kwargs.get("metrics") or {}
        if not self._evaluates and measured.get("eval_loss") is not None:
            self._engine.told(measured["eval_loss"], measured.get("eval_accuracy"), "accuracy")
            # The Trainer measures after the epoch's end.
            self._engine.write_told()
        return control

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Blocks until the swarm has finished and loads the final model."""
        self._train_end()
        return control

    def _only(self, model: torch.nn.Module, options: dict[str, Any]) -> Optional[Collection[str]]:
        mode = options.pop("hfMode", None)
        if mode is not None and str(mode).lower() not in _MODES:
            raise ParameterError(f"hfMode: {mode!r} is not allowed", f"give one of {', '.join(_MODES)}")
        has_adapters = bool(getattr(model, "peft_config", None))
        if str(mode).lower() == "full" or (mode is None and not has_adapters):
            return None
        # PEFT freezes the base model: what it leaves to be trained are the adapters, and layers of modules_to_save.
        names = frozenset(name for name, parameter in model.named_parameters() if parameter.requires_grad)
        if not has_adapters or not names:
            raise ParameterError(
                "hfMode: 'peft', but the model has no adapters that are trained", "make them with peft.get_peft_model"
            )
        return names

    def _stopped_if_over(self, control: Any) -> Any:
        if self.training_over:
            control.should_training_stop = True
        return control


def _sharder(args: Any) -> str:
    """Give what a Trainer of these arguments shards its model with; empty for nothing."""
    # accelerate launch says it in the environment; neither can be seen in a model that is whole until it is trained.
    if getattr(args, "deepspeed", None) or os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true":
        return "DeepSpeed"
    return "FSDP" if getattr(args, "fsdp", None) or os.environ.get("ACCELERATE_USE_FSDP") == "true" else ""
