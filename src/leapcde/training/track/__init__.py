"""Following a training from outside: callbacks, and those that write to MLflow and TensorBoard."""

from leapcde.training.track.callbacks import Callback, Callbacks
from leapcde.training.track.trackers import MLflow, TensorBoard

__all__ = ["Callback", "Callbacks", "MLflow", "TensorBoard"]
