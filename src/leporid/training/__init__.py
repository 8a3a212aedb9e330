"""The one training loop of all neural models.

The loop works on a protocol (`Trainable`) and imports no model. A step is a pure function of the
seed and the step, so that a run that was stopped goes on as if it had not been.

backward    `Trainable`: what the loop needs of a model; loss and gradients of one batch
callbacks   `Callback`: what others are told while a model trains; `MLflow`, `WeightsAndBiases`
checkpoint  All that a run needs to go on, in one file; weights from and to arrays
config      `TrainingConfig`: settings every neural model has, and the learning rate they give
device      Device, processes (`torchrun`), mixed precision, and seeds for every random choice
history     `TrainingHistory`: one row per log point, and the log that writes them
loop        `train_loop`: the training loop, one page, and validation; Ctrl-C stops between steps
sampler     `Sampler`: batches as a pure function of (seed, step); windows, negative items
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
