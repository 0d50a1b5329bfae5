"""FedProx for Keras on TensorFlow: gradients that pull towards the last merged model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Callable, Optional

from swarmlearning._prox import Pull
from swarmlearning.errors import ParameterError


class Proximal(Pull):
    """The term mu/2 · ‖w - w_merged‖² over the trainable weights that are merged.

    With hook its gradient, mu · (w - w_merged), is added to those that the compiled model's optimizer applies, once a
    step; loss() gives the term itself. Before the first merge there is none.
    """

    def __init__(self, mu: float, hook: bool) -> None:
        """Do nothing yet: attach sets the hook."""
        self._mu = mu
        self._hook = hook
        # Of each weight, by identity: the weight itself, so that its identity stays its own, and its merged value.
        self._anchors: dict[int, tuple[Any, Any]] = {}
        self._detach: Optional[Callable[[], None]] = None

    def attach(self, model: Any) -> None:
        """Put the pull between the model's gradients and its optimizer, also where fit has traced a step already."""
        if not self._mu:
            return
        tensorflow()
        if not self._hook:
            return
        optimizer: Any = getattr(model, "optimizer", None)
        # In mixed precision the outer one has scaled gradients; the inner one gets the true ones.
        while getattr(optimizer, "inner_optimizer", None) is not None:
            optimizer = optimizer.inner_optimizer
        if optimizer is None:
            raise ParameterError(
                "fedProxMu: the model has no optimizer",
                "compile it, or give fedProxHook=False and add fedprox_loss() to the loss",
            )
        self.release()
        undo = self._wrap(optimizer)
        _forget_trace(model)

        def detach() -> None:
            undo()
            _forget_trace(model)

        self._detach = detach

    def anchor(self, weights: Iterable[Any]) -> None:
        """Pull towards the present values of these weights from here on."""
        if not self._mu:
            return
        tf = tensorflow()
        for weight in weights:
            if not weight.trainable:
                continue
            kept = self._anchors.get(id(weight))
            if kept is None:
                # A variable: a step that was traced reads it anew each time.
                self._anchors[id(weight)] = (weight, tf.Variable(weight.numpy(), dtype=weight.dtype, trainable=False))
            else:
                kept[1].assign(weight.numpy())

    def loss(self) -> Any:
        """Give the term as a float32 tensor; 0 while there is no merged model."""
        tf = tensorflow()
        total = tf.zeros((), tf.float32)
        for weight, anchor in self._anchors.values():
            away = tf.cast(tf.convert_to_tensor(weight) - anchor, tf.float32)
            total += self._mu / 2 * tf.reduce_sum(away * away)
        return total

    def release(self) -> None:
        """Take the hook off and forget the merged model."""
        if self._detach is not None:
            self._detach()
            self._detach = None
        self._anchors.clear()

    def _wrap(self, optimizer: Any) -> Callable[[], None]:
        """Shadow the method through which all gradients pass: apply in Keras 3, apply_gradients in Keras 2."""
        name = "apply" if callable(getattr(optimizer, "apply", None)) else "apply_gradients"
        inner = getattr(optimizer, name)

        def apply(grads: Sequence[Any], trainable_variables: Optional[Sequence[Any]] = None) -> Any:
            # Keras gives the variables; without them they are those that the optimizer was built with.
            variables = optimizer._trainable_variables if trainable_variables is None else trainable_variables
            scale = getattr(optimizer, "loss_scale_factor", None) or 1.0
            return inner([self._pull(g, v, scale) for g, v in zip(grads, variables)], trainable_variables)

        def apply_gradients(grads_and_vars: Iterable[tuple[Any, Any]], *args: Any, **kwargs: Any) -> Any:
            return inner([(self._pull(g, v, 1.0), v) for g, v in grads_and_vars], *args, **kwargs)

        setattr(optimizer, name, apply if name == "apply" else apply_gradients)
        return lambda: delattr(optimizer, name)

    def _pull(self, gradient: Any, weight: Any, scale: float) -> Any:
        kept = self._anchors.get(id(weight))
        if gradient is None or kept is None:
            return gradient
        tf = tensorflow()
        pull = tf.cast(self._mu * scale, kept[1].dtype) * (tf.convert_to_tensor(weight) - kept[1])
        # Also makes those of an embedding dense.
        return tf.convert_to_tensor(gradient) + tf.cast(pull, gradient.dtype)


def tensorflow() -> Any:
    """Give TensorFlow; another backend of Keras keeps its optimizer's steps out of reach."""
    try:
        import tensorflow as tf  # noqa: PLC0415 - only where it is needed.
        from tensorflow import keras  # noqa: PLC0415
    except ImportError:
        raise ParameterError("fedProxMu: needs TensorFlow", "leave fedProxMu out on other backends") from None
    backend = getattr(getattr(keras, "backend", None), "backend", None)
    if callable(backend) and backend() != "tensorflow":
        raise ParameterError(f"fedProxMu: the backend of Keras is {backend()}", "leave it out, or use TensorFlow's")
    return tf


def _forget_trace(model: Any) -> None:
    if getattr(model, "train_function", None) is not None:
        model.make_train_function(force=True)
