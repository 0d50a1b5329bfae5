"""The import of the original's version 0.3: ``from swarm import SwarmCallback``."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any, Optional

from swarmlearning import _params
from swarmlearning.errors import SwarmError

__all__ = ["SwarmCallback", "SwarmError"]


class SwarmCallback:
    """Version 0.3's callback: makes swarmlearning's own one for the platform that is given or found.

    All parameters by name: sync_interval, min_peers, use_adaptive_sync, val_data, val_batch_size,
    checkin_model_on_train_end, node_weightage, ml_platform (KERAS or PYTORCH), model_name, model (PyTorch).
    """

    def __new__(  # noqa: PLR0913 - the original's parameters, all by name.
        cls,
        *,
        sync_interval: Any,
        min_peers: Any,
        use_adaptive_sync: bool = False,
        val_data: Any = None,
        val_batch_size: Optional[int] = None,
        checkin_model_on_train_end: Optional[str] = None,
        node_weightage: int = 1,
        ml_platform: Optional[str] = None,
        model_name: str = "swarm_model",
        model: Any = None,
        **more: Any,
    ) -> Any:
        """Give the callback of the platform."""
        options: dict[str, Any] = dict(more)
        options.update(
            useAdaptiveSync=use_adaptive_sync,
            checkinModelOnTrainEnd=checkin_model_on_train_end,
            nodeWeightage=node_weightage,
            # Version 0.3 asked for no loss function, so the one that is assumed may not fit.
            _lenientScore=True,
        )
        if model is not None:
            options["model"] = model
        if ml_platform is not None:
            options["ml_platform"] = ml_platform
        if val_data is not None:
            options["adsValData"] = val_data
        if _is_pytorch(ml_platform, model):
            return _pytorch(sync_interval, min_peers, options, val_batch_size)
        module = importlib.import_module("swarmlearning.tf")
        return module.SwarmCallback(sync_interval, min_peers, adsValBatchSize=val_batch_size, **options)


def _pytorch(sync_interval: Any, min_peers: Any, options: dict[str, Any], val_batch_size: Optional[int]) -> Any:
    module = importlib.import_module("swarmlearning.pyt")
    score = importlib.import_module("swarmlearning._pyt_score")
    given = options.get("adsValData")
    if given is not None:
        batch = score.DEFAULT_BATCH if val_batch_size is None else _params.positive("val_batch_size", val_batch_size)
        options["adsValData"] = score.loader(given, batch)
        # Cross entropy of log-probabilities is their negative log likelihood: it fits both kinds of classifiers.
        options.setdefault("lossFunction", "CrossEntropyLoss")
        options.setdefault("metricFunction", "Accuracy")
        options.setdefault("metricFunctionArgs", {"task": "multiclass", "num_classes": _classes(options["adsValData"])})
    return module.SwarmCallback(sync_interval, min_peers, **options)


def _classes(loader: Any) -> int:
    """Count the classes of the validation data, which torchmetrics wants to know beforehand."""
    largest = 1
    for batch in loader:
        try:
            largest = max(largest, int(batch[-1].max()))
        except (TypeError, ValueError, IndexError, AttributeError, RuntimeError):
            break
    return largest + 1


def _is_pytorch(platform: Optional[str], model: Any) -> bool:
    if platform is not None:
        return _params.platform_of("ml_platform", platform) == "PYTORCH"
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        return True
    if "tensorflow" in sys.modules or "keras" in sys.modules:
        return False
    if torch is not None:
        return True
    return importlib.util.find_spec("tensorflow") is None and importlib.util.find_spec("keras") is None
