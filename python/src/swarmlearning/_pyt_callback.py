"""What the callbacks for PyTorch share: how parameters become an engine, and what its hooks hold together."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Optional

import torch

from swarmlearning import _params
from swarmlearning._attributes import Attributes
from swarmlearning._local import LocalLayers
from swarmlearning._pyt_model import Module
from swarmlearning._pyt_prox import Proximal
from swarmlearning._pyt_ranks import APART_REMEDY, joined, spans_processes, unwrapped, weight_sums
from swarmlearning._pyt_score import DEFAULT_BATCH, MISSING_LOSS, Evaluator, loader
from swarmlearning._pyt_shards import Whole, refuse
from swarmlearning._ranks import Ranks
from swarmlearning.base import Engine
from swarmlearning.errors import ParameterError, RankLostError

_SCORING = ("lossFunction", "lossFunctionArgs", "metricFunction", "metricFunctionArgs")


@contextmanager
def _left_on_failure(ranks: Optional[Ranks]) -> Iterator[None]:
    """Let the other ranks know that this one has no callback."""
    try:
        yield
    except BaseException as err:
        if ranks is not None:
            ranks.give_up(RankLostError.reason, str(err))
        raise


class TorchCallback(Attributes):
    """Merges a torch.nn.Module. A class for one kind of training loop calls _set_up and the four hooks."""

    _framework = "pyt"
    _evaluator: type[Evaluator] = Evaluator

    def fedprox_loss(self) -> torch.Tensor:
        """Give FedProx's term fedProxMu/2 · ‖w - w_merged‖² to be added to the loss; for fedProxHook=False."""
        return self._proximal.loss()

    def _set_up(self, sync_frequency: Any, min_peers: Any, contract: Any, kwargs: Mapping[str, Any]) -> None:
        options = dict(kwargs)
        logger = _params.default_logger(options.pop("logger", None))
        ranks = joined(logger)
        with _left_on_failure(ranks):
            self._prepare((sync_frequency, min_peers, contract), options, logger, ranks)

    def _prepare(
        self, required: tuple[Any, Any, Any], options: dict[str, Any], logger: logging.Logger, ranks: Optional[Ranks]
    ) -> None:
        if ranks is not None and not ranks.leads:
            logger = ranks.quiet(logger)
        model = options.pop("model", None)
        if not isinstance(model, torch.nn.Module):
            raise ParameterError(f"model: {type(model).__name__} is not allowed", "give the torch.nn.Module to train")
        # A program of one process has the names, and the devices, that it has always had.
        model = model if ranks is None else unwrapped(model)
        self._whole = None if ranks is None else Whole(model)
        only = self._only(model, options)
        scoring = {name: options.pop(name, None) for name in _SCORING}
        batch_size = _params.positive("adsValBatchSize", options.pop("adsValBatchSize", None) or DEFAULT_BATCH)
        lenient = bool(options.pop("_lenientScore", False))
        local = LocalLayers(options.pop("localLayers", None))
        mu = _params.strength("fedProxMu", options.pop("fedProxMu", None))
        hook = _params.boolean("fedProxHook", options.pop("fedProxHook", True))
        params = _params.check(*required, options, self.ml_platform, logger)
        if ranks is not None:
            ranks.agree({**params.shared(), "fedProxMu": str(mu), "fedProxHook": int(hook)})
        evaluator: Optional[Evaluator] = None
        if options.get("adsValData") is not None:
            if params.adaptive and scoring["lossFunction"] is None and not self._evaluator.models_loss:
                raise ParameterError("useAdaptiveSync: is on without lossFunction", MISSING_LOSS)
            data = loader(options["adsValData"], batch_size, self._evaluator.collate)
            if ranks is None or ranks.leads:
                evaluator = self._evaluator(model, data, scoring, logger, lenient)
        self._alone, self._ranks = ranks is None, ranks
        self._model = model
        self._evaluates = evaluator is not None
        self._proximal = Proximal(model, mu, hook)
        merged = Module(model, evaluator, local, self._proximal, only)
        if ranks is not None:
            # Also of DistributedDataParallel, which a program can keep from averaging.
            ranks.watch(lambda batches: weight_sums(merged.parameters(), batches), APART_REMEDY)
        self._engine = Engine(params, merged, self._framework, logger, ranks)

    def _only(self, model: torch.nn.Module, options: dict[str, Any]) -> Optional[Collection[str]]:
        """Give the entries of the state_dict that alone may be merged, None for all; takes its own options out."""
        return None

    def _train_begin(self, sharder: str = "") -> None:
        """Do what the hook does; sharder is what the loop shards its model with, where that is known."""
        if self._alone and spans_processes():
            raise ParameterError(
                "SwarmCallback was made before torch.distributed was initialised, or Horovod, and knows no others",
                "call init_process_group or hvd.init first (transformers: make TrainingArguments first)",
            )
        with _left_on_failure(self._ranks):
            if self._whole is not None:
                self._whole.check()
                if sharder:
                    refuse(sharder)
        with self._proximal.released_on_failure():
            self._engine.train_begin()

    def _batch_end(self, samples: Optional[int] = None) -> None:
        with self._proximal.released_on_failure():
            self._engine.batch_end(samples)

    def _epoch_end(self) -> None:
        with self._proximal.released_on_failure():
            self._engine.epoch_end()

    def _train_end(self) -> None:
        with self._proximal.released_on_failure():
            self._engine.train_end()
        self._proximal.release()
