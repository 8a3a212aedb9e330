"""The one training loop of all neural models.

The loop works on a protocol (`Trainable`) and imports no model. A step is a pure function of the
seed and the step, so that a run that was stopped goes on as if it had not been.

backward    Loss and gradients of one batch: operation by operation, or replayed as a CUDA graph
callbacks   `Callback`: what others are told while a model trains, and how they can end it
checkpoint  All that a run needs to go on, in one file; weights from and to arrays
config      `TrainingConfig`: settings every neural model has, and the learning rate they give
data        Interactions as tensors on the device that trains, and the windows cut from them
history     `TrainingHistory`: one row per log point, and the log that writes them
loop        `train_loop`: the training loop, one page, and validation; Ctrl-C stops between steps
negatives   Negative items: never a training positive of the user, exactly, without a retry
parallel    Which device; gradients summed over processes started by `torchrun`
precision   Mixed precision: where it is used, and a check that it can be
protocol    `Trainable`: what the loop needs of a model
sampler     `Sampler`: batches as a pure function of (seed, step), made on the device
seeding     Seeds for every random choice, derived from one number
trackers    Callbacks that write into experiment trackers: `MLflow`, `WeightsAndBiases`
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
