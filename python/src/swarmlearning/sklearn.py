"""SwarmCallback for scikit-learn: estimators with coefficients, trained by partial_fit or by fit.

model.partial_fit(x[:1], y[:1], classes=classes)    # once, so that the coefficients are there
callback = SwarmCallback(syncFrequency=8, minPeers=2, model=model, adsValData=(x_test, y_test))
callback.on_train_begin()
for epoch in range(epochs):
    for x, y in batches:
        model.partial_fit(x, y)
        callback.on_batch_end()
    callback.on_epoch_end()
callback.on_train_end()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.metrics import log_loss, mean_squared_error

from swarmlearning import arrays
from swarmlearning._params import DEFAULT_CONTRACT
from swarmlearning.errors import ModelChangedError, ParameterError
from swarmlearning.layout import Array

__all__ = ["SwarmCallback"]

# Linear models, and multi-layer perceptrons, which have a list of each.
_COEFFICIENTS = ("coef_", "intercept_", "coefs_", "intercepts_")


class SwarmCallback(arrays.SwarmCallback):
    """Merges an estimator's coefficients with the other peers every syncFrequency batches.

    Beside the parameters of all callbacks: model (required), an estimator that has been fitted once, with all classes;
    parameters, the names of the fitted attributes to merge where they are not coef_ and intercept_, or a perceptron's
    coefs_ and intercepts_; adsValData, a tuple (x, y) that the merged model is measured on. A classifier's metric is
    its accuracy and its loss the cross entropy, or the share of wrong answers if it gives no probabilities; a
    regressor's are R² and the mean squared error. What an optimizer keeps stays with this peer.
    """

    ml_platform = "SKLEARN"
    _framework = "sklearn"

    def __init__(
        self, syncFrequency: Any, minPeers: Any, trainingContract: Any = DEFAULT_CONTRACT, **kwargs: Any
    ) -> None:
        """Check every parameter; a wrong one is a SwarmError."""
        options = dict(kwargs)
        model, names = options.pop("model", None), options.pop("parameters", None)
        if not isinstance(model, BaseEstimator):
            raise ParameterError(f"model: {type(model).__name__} is not allowed", "give the estimator to train")
        fitted = _Fitted(model, names)
        data = options.pop("adsValData", None)
        if data is not None:
            if not isinstance(data, tuple) or len(data) != 2:
                raise ParameterError(f"adsValData: {type(data).__name__} is not allowed", "give a tuple (x, y)")
            options["evaluate"] = lambda: _measure(model, *data)
        super().__init__(syncFrequency, minPeers, trainingContract, get=fitted.get, set=fitted.set, **options)
        if data is not None:
            self._model.metric_name = "accuracy" if is_classifier(model) else "R2"


class _Fitted:
    """The fitted attributes of an estimator that are merged."""

    def __init__(self, model: BaseEstimator, names: Optional[Sequence[str]]) -> None:
        self._model = model
        self._names = _COEFFICIENTS if names is None else tuple(names)
        if names is not None:
            missing = [name for name in self._names if not hasattr(model, name)]
            if isinstance(names, str) or missing:
                raise ParameterError(
                    f"parameters: {type(model).__name__} has no {', '.join(missing) or names}",
                    "give a list of attributes that it has, after it was fitted once",
                )
        if not self.get():
            raise ParameterError(
                f"model: this {type(model).__name__} has no coefficients",
                "call partial_fit or fit once before, with all classes, or name what is to be merged in parameters",
            )

    def get(self) -> dict[str, Array]:
        """Give the arrays by name; those of a list have their index in it."""
        out: dict[str, Array] = {}
        for name in self._names:
            value = getattr(self._model, name, None)
            if isinstance(value, list):
                out.update({f"{name}.{index}": part for index, part in enumerate(value)})
            elif value is not None:
                out[name] = np.asarray(value)
        return out

    def set(self, merged: Mapping[str, Array]) -> None:
        """Write the arrays into the estimator: in place where it has arrays, since its optimizer may hold them too."""
        present = self.get()
        for name, value in merged.items():
            target = present[name]
            if target.shape != value.shape:
                raise ModelChangedError(f"{name} has the shape {target.shape}, the merged one {value.shape}")
            if target.ndim and target.flags.writeable:
                target[...] = value
            else:
                setattr(self._model, name, type(getattr(self._model, name))(value))


def _measure(model: Any, x: Any, y: Any) -> tuple[float, float]:
    score = float(model.score(x, y))
    if not is_classifier(model):
        return float(mean_squared_error(y, model.predict(x))), score
    if hasattr(model, "predict_proba"):
        return float(log_loss(y, model.predict_proba(x), labels=model.classes_)), score
    return 1 - score, score
