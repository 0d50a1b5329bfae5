"""Loss and metric of a torch module on validation data."""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Callable, Optional

import numpy as np
import torch

from swarmlearning._params import near
from swarmlearning.base import Score
from swarmlearning.errors import ParameterError, SwarmError, one_line

LossFunction = Callable[..., Any]

DEFAULT_BATCH = 32
MISSING_LOSS = 'give the name of a loss in torch.nn, like "CrossEntropyLoss", or a callable as lossFunction'


def loader(data: Any, batch_size: int, collate: Optional[Callable[[Any], Any]] = None) -> Any:
    """Give data itself if it is a DataLoader, and a loader of batches of it if it is a dataset.

    collate makes a batch of a list of samples; None is torch's own.
    The first batch of a dataset that has a length is made at once, so that one that can not be batched is an error
    here, not after the first merge.
    """
    if isinstance(data, torch.utils.data.DataLoader):
        return data
    if not _is_dataset(data):
        raise ParameterError(
            f"adsValData: {type(data).__name__} is not allowed", "give a torch.utils.data.DataLoader or Dataset"
        )
    made: Any = torch.utils.data.DataLoader(data, batch_size=batch_size, collate_fn=collate)
    if isinstance(data, torch.utils.data.IterableDataset):
        return made
    try:
        next(iter(made), None)
    except (RuntimeError, ValueError, TypeError, IndexError, KeyError) as err:
        raise ParameterError(
            f"adsValData: no batch can be made of this {type(data).__name__}: {one_line(err)}",
            "give a torch.utils.data.DataLoader with a collate_fn of its own",
        ) from None
    return made


def _is_dataset(data: Any) -> bool:
    """Report whether data is a Dataset, or behaves like one as more than a list or a tensor does."""
    if isinstance(data, torch.utils.data.Dataset):
        return True
    plain = (str, bytes, list, tuple, Mapping, torch.Tensor)
    return hasattr(data, "__getitem__") and hasattr(data, "__len__") and not isinstance(data, (*plain, np.ndarray))


class Evaluator:
    """Measures in evaluation mode on the module's own device and leaves the module as it was."""

    # Whether the model itself gives a loss where there is no loss function.
    models_loss = False
    # What makes a batch of samples; None is torch's own.
    collate: Optional[Callable[[Any], Any]] = None

    def __init__(
        self,
        module: torch.nn.Module,
        data: Any,
        scoring: Mapping[str, Any],
        logger: logging.Logger,
        lenient: bool = False,
    ) -> None:
        """Check and build loss and metric; lenient turns a failing measurement into a warning.

        data is a DataLoader. What is not given is assumed for a classifier as soon as the first batch shows one; else
        there is none. A metric that needs torchmetrics where that is missing is left out. All is said in the log.
        """
        self._module = module
        self._data = data
        self._logger = logger
        # What nobody asked for by name may fail: then it is said, and the training goes on.
        self._unasked = all(scoring.get(name) is None for name in ("lossFunction", "metricFunction"))
        self._lenient = lenient or (self._unasked and not self.models_loss)
        self._broken = False
        self._loss: Optional[_Loss] = None
        if scoring.get("lossFunction") is not None:
            self._loss = _Loss(scoring["lossFunction"], scoring.get("lossFunctionArgs"))
        self._asked_metric = scoring.get("metricFunction") is not None
        self._assumed = False
        self._metric: Optional[_Metric] = None
        self.metric_name = _metric_name(scoring.get("metricFunction"))
        try:
            self._metric = _metric(scoring.get("metricFunction"), scoring.get("metricFunctionArgs"))
        except NoTorchmetricsError as err:
            logger.warning("no metric is reported: %s", err)

    def measure(self) -> Optional[Score]:
        """Give the mean loss of a sample and the metric; None if it can not be measured and that is tolerated."""
        if self._broken or (self._assumed and not (self._has_loss or self._metric)):
            return None
        modes = [(part, part.training) for part in self._module.modules()]
        self._module.eval()
        try:
            with torch.no_grad():
                return self._run()
        except SwarmError as err:
            if not (self._unasked and self._lenient):
                raise
            self._give_up(err)
            return None
        except (RuntimeError, ValueError, TypeError, IndexError) as err:
            if not self._lenient:
                raise SwarmError(
                    f"measure loss on adsValData: {one_line(err)}",
                    "check lossFunction, metricFunction and that adsValData yields (input, target)",
                    reason="EVALUATION",
                ) from err
            self._give_up(err)
            return None
        finally:
            # Each part on its own: frozen layers may be in evaluation mode during training.
            for part, training in modes:
                part.training = training

    def _give_up(self, err: Exception) -> None:
        self._broken = True
        self._logger.warning("loss can not be measured on the validation data: %s", err)

    def _run(self) -> Score:
        device = _device(self._module)
        loss, samples = 0.0, 0
        if self._metric is not None:
            self._metric.reset(device)
        for batch in self._data:
            output, target, size, summed = self._apply(batch, device)
            if not self._assumed:
                had_loss = self._has_loss
                self._assume(output, target)
                if self._loss is not None and not had_loss:
                    summed = self._loss.sum(output, target, size)
            loss += summed
            samples += size
            if self._metric is not None:
                self._metric.update(output, target, size)
        if samples == 0:
            raise SwarmError("adsValData has no samples", "give validation data with at least one sample")
        return (
            loss / samples if self._has_loss else None,
            None if self._metric is None else self._metric.compute(),
        )

    def _assume(self, output: Any, target: Any) -> None:
        """Take cross entropy and accuracy where neither was given and the first batch shows a classifier; say so."""
        self._assumed = True
        fits, taken = _classifies(output, target), []
        if fits and not self._has_loss:
            self._loss = _Loss(_nll if _probabilities(output) else torch.nn.CrossEntropyLoss, None)
            taken.append("cross entropy as the loss (lossFunction names another)")
        if fits and not self._asked_metric:
            self._metric, self.metric_name = _Metric(Accuracy()), "accuracy"
            taken.append("accuracy as the metric (metricFunction names another)")
        if taken:
            self._logger.info("adsValData: the model's outputs are a classifier's: took %s", " and ".join(taken))
        if not self._has_loss:
            self._logger.warning(
                "adsValData is given without lossFunction, so that no loss is reported: %s", MISSING_LOSS
            )

    @property
    def _has_loss(self) -> bool:
        return self._loss is not None or self.models_loss

    def _apply(self, batch: Any, device: torch.device) -> tuple[Any, Any, int, float]:
        """Give the model's output for a batch, the target, the number of samples, and the sum of their losses."""
        inputs, target = _split(batch, device)
        output = self._module(*inputs)
        size = int(target.shape[0]) if target.dim() else 1
        return output, target, size, 0.0 if self._loss is None else self._loss.sum(output, target, size)


def _classifies(output: Any, target: Any) -> bool:
    """Tell whether output is scores of (samples, classes) and target the number of one of the classes for each."""
    if not (isinstance(output, torch.Tensor) and isinstance(target, torch.Tensor)):
        return False
    shaped = output.dim() == 2 and target.dim() == 1 and len(output) == len(target) > 0 and output.shape[1] > 1
    if not (shaped and target.dtype == torch.int64 and output.is_floating_point()):
        return False
    return int(target.min()) >= 0 and int(target.max()) < int(output.shape[1])


def _probabilities(output: torch.Tensor) -> bool:
    """Tell whether the rows are probabilities, as after a softmax; logarithms of them may go into cross entropy."""
    sums = output.sum(dim=1)
    return bool((output >= 0).all()) and bool(torch.allclose(sums, torch.ones_like(sums), atol=1e-3))


def _nll(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.nll_loss(output.clamp(min=1e-12).log(), target)


def _device(module: torch.nn.Module) -> torch.device:
    for value in module.parameters():
        return value.device
    for value in module.buffers():
        return value.device
    return torch.device("cpu")


def _split(batch: Any, device: torch.device) -> tuple[list[Any], torch.Tensor]:
    if not isinstance(batch, (tuple, list)) or len(batch) < 2:
        raise SwarmError(
            f"adsValData yields {type(batch).__name__}, not (input, target)",
            "make the DataLoader yield (input, target)",
        )
    moved = [item.to(device) if hasattr(item, "to") else item for item in batch]
    return moved[:-1], moved[-1]


class _Loss:
    """A loss that is summed over samples, whatever its own reduction is."""

    def __init__(self, function: Any, args: Any) -> None:
        self._function, self._reduction = _loss(function, args)

    def sum(self, output: Any, target: Any, size: int) -> float:
        value = self._function(output, target)
        # With the reduction "mean" a batch counts by its size; sums and single losses are added up.
        if self._reduction == "mean" and value.dim() == 0:
            return float(value) * size
        return float(value.sum())


def _loss(function: Any, args: Any) -> tuple[LossFunction, str]:
    arguments = _arguments("lossFunctionArgs", args)
    if isinstance(function, str):
        found = getattr(torch.nn, function, None)
        if not isinstance(found, type):
            losses = [name for name in dir(torch.nn) if name.endswith("Loss")]
            raise ParameterError(
                f"lossFunction: torch.nn has no {function!r}{near(function, losses)}",
                'give a name like "CrossEntropyLoss" or a callable',
            )
        function = found
    if not callable(function):
        raise ParameterError(f"lossFunction: {function!r} is not allowed", "give a name in torch.nn or a callable")
    if isinstance(function, type):
        function = _build("lossFunction", function, arguments)
    elif arguments:
        function = functools.partial(function, **arguments)
    reduction = getattr(function, "reduction", arguments.get("reduction", "mean"))
    return function, str(reduction)


def _arguments(name: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ParameterError(f"{name}: {value!r} is not allowed", "give a dict of arguments")
    return dict(value)


def _build(name: str, cls: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    try:
        return cls(**arguments)
    except (TypeError, ValueError) as err:
        raise ParameterError(f"{name}: {getattr(cls, '__name__', cls)}: {err}", f"check {name}Args") from None


class _Metric:
    """A metric of torchmetrics' shape (reset, update, compute)."""

    def __init__(self, metric: Any) -> None:
        self._metric = metric

    def reset(self, device: torch.device) -> None:
        if hasattr(self._metric, "to"):
            self._metric = self._metric.to(device)
        self._metric.reset()

    def update(self, output: Any, target: torch.Tensor, size: int) -> None:
        self._metric.update(output, target)

    def compute(self) -> float:
        with _of_this_rank(self._metric):
            return float(self._metric.compute())


@contextmanager
def _of_this_rank(metric: Any) -> Iterator[None]:
    """Keep a metric, and those that it is made of, from gathering what all ranks have seen: rank 0 alone measures."""
    parts = list(metric.modules()) if isinstance(metric, torch.nn.Module) else [metric]
    # Torchmetrics reads the second one, which it sets by the first when a metric is made.
    kept = [(p, n, getattr(p, n)) for p in parts for n in ("sync_on_compute", "_to_sync") if hasattr(p, n)]
    try:
        for part, name, _ in kept:
            setattr(part, name, False)
        yield
    finally:
        for part, name, value in kept:
            setattr(part, name, value)


class _Average(_Metric):
    """A plain function of (output, target), averaged over the samples."""

    def reset(self, device: torch.device) -> None:
        self._sum, self._samples = 0.0, 0

    def update(self, output: Any, target: torch.Tensor, size: int) -> None:
        self._sum += float(self._metric(output, target)) * size
        self._samples += size

    def compute(self) -> float:
        return self._sum / max(1, self._samples)


class Accuracy:
    """Accuracy as torchmetrics computes it, for machines without torchmetrics.

    average "micro" is the share of right answers; "macro" the mean over the classes that occur.
    """

    def __init__(
        self,
        task: str = "multiclass",
        num_classes: Optional[int] = None,
        average: str = "micro",
        threshold: float = 0.5,
    ) -> None:
        """Take the arguments of torchmetrics that this version knows."""
        if task not in ("multiclass", "binary") or average not in ("micro", "macro"):
            raise ValueError(
                f"without torchmetrics only task multiclass or binary and average micro or macro are known, "
                f"not {task} and {average}"
            )
        self._average = average
        self._threshold = threshold
        self._classes = num_classes or 0
        self.reset()

    def reset(self) -> None:
        """Forget all samples."""
        self._answers: list[torch.Tensor] = []
        self._targets: list[torch.Tensor] = []

    def update(self, output: torch.Tensor, target: torch.Tensor) -> None:
        """Add a batch: scores of (samples, classes, ...), or one score or class for each target."""
        if output.dim() == target.dim() + 1:
            answer = output.argmax(dim=1)
        elif output.is_floating_point():
            if bool(((output < 0) | (output > 1)).any()):
                output = output.sigmoid()
            answer = (output > self._threshold).to(torch.int64)
        else:
            answer = output
        self._answers.append(answer.reshape(-1).cpu().to(torch.int64))
        self._targets.append(target.reshape(-1).cpu().to(torch.int64))

    def compute(self) -> float:
        """Give the accuracy of all samples since reset."""
        answers, targets = torch.cat(self._answers), torch.cat(self._targets)
        right = answers == targets
        if self._average == "micro":
            return float(right.to(torch.float64).mean())
        count = max(self._classes, int(answers.max()) + 1, int(targets.max()) + 1)
        hits = torch.bincount(targets[right], minlength=count).to(torch.float64)
        wanted = torch.bincount(targets, minlength=count)
        seen = (wanted + torch.bincount(answers, minlength=count)) > 0
        shares = hits / wanted.clamp(min=1)
        return float(shares[seen].mean())


_FALLBACKS: Mapping[str, Callable[..., Any]] = {
    "Accuracy": Accuracy,
    "MulticlassAccuracy": functools.partial(Accuracy, average="macro"),
    "BinaryAccuracy": functools.partial(Accuracy, task="binary"),
}


def _metric(function: Any, args: Any) -> Optional[_Metric]:
    arguments = _arguments("metricFunctionArgs", args)
    if function is None:
        return None
    if isinstance(function, str):
        return _Metric(_metric_by_name(function, arguments))
    if isinstance(function, type):
        function = _build("metricFunction", function, arguments)
    elif arguments:
        function = functools.partial(function, **arguments)
    if all(hasattr(function, part) for part in ("reset", "update", "compute")):
        return _Metric(function)
    if not callable(function):
        raise ParameterError(
            f"metricFunction: {function!r} is not allowed", "give a name in torchmetrics or a callable"
        )
    return _Average(function)


def _metric_name(function: Any) -> str:
    """Give the name that a metric has by itself; empty where it has none, as a lambda."""
    if isinstance(function, str):
        return function
    while isinstance(function, functools.partial):
        function = function.func
    if function is None or getattr(function, "__name__", "") == "<lambda>":
        return ""
    return str(getattr(function, "__name__", type(function).__name__))


class NoTorchmetricsError(ParameterError):
    """A metric can be had from torchmetrics alone, which is not installed."""


def _metric_by_name(name: str, arguments: Mapping[str, Any]) -> Any:
    modules = _torchmetrics()
    if not modules:
        try:
            return _FALLBACKS[name](**arguments)
        except (KeyError, TypeError, ValueError):
            raise NoTorchmetricsError(
                f"metricFunction: {name!r} with {dict(arguments)} needs torchmetrics, which is not installed"
                + ("" if name in _FALLBACKS else near(name, _FALLBACKS)),
                f"install torchmetrics, or give one of {', '.join(_FALLBACKS)} or a callable",
            ) from None
    for module in modules:
        found = getattr(module, name, None)
        if callable(found):
            return _build("metricFunction", found, arguments)
    names = [found for module in modules for found in dir(module) if found[:1].isupper()]
    raise ParameterError(
        f"metricFunction: torchmetrics has no {name!r}{near(name, names)}", "give a name in torchmetrics or a callable"
    )


def _torchmetrics() -> Sequence[Any]:
    """Give the modules that may have a metric; none if torchmetrics is not installed."""
    try:
        return [importlib.import_module(name) for name in ("torchmetrics", "torchmetrics.classification")]
    except ImportError:
        return []
