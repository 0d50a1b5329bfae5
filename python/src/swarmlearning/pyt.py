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

from typing import Any, Optional

from swarmlearning._params import DEFAULT_CONTRACT
from swarmlearning._pyt_callback import TorchCallback

__all__ = ["SwarmCallback"]


class SwarmCallback(TorchCallback):
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
        self._set_up(syncFrequency, minPeers, trainingContract, kwargs)

    def on_train_begin(self) -> None:
        """Join the swarm; blocks until minPeers are there and loads the first merged model."""
        self._train_begin()

    def on_batch_end(self, batch: Optional[int] = None, samples: Optional[int] = None) -> None:
        """Count a batch, of so many samples; blocks for a merge when it is time for one.

        With overlap it blocks for the one before.
        """
        self._batch_end(samples)

    def on_epoch_end(self, epoch: Optional[int] = None) -> None:
        """Count an epoch; measures the model if validation data was given."""
        self._epoch_end()

    def on_train_end(self) -> None:
        """Blocks until the swarm has finished and loads the final model."""
        self._train_end()
