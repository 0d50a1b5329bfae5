"""Swarm learning for an existing training program: one callback, no change of the training itself.

    from swarmlearning.pyt import SwarmCallback      # PyTorch
    from swarmlearning.tf import SwarmCallback       # Keras
    from swarmlearning.hf_transformers import SwarmCallback  # transformers.Trainer
    from swarmlearning.sklearn import SwarmCallback  # estimators with coefficients
    from swarmlearning.arrays import SwarmCallback   # a dict of numpy arrays
    from swarmlearning.swci import Swci              # commands for operators, no training

No framework is imported before its module is.
"""

from swarmlearning.errors import SwarmError

__version__ = "0.1.0"

__all__ = ["SwarmError", "__version__"]
