"""The one training loop of all neural models.

The loop works on a protocol (`Trainable`) and imports no model. A step is a pure function of the
seed and the step, so that a run that was stopped goes on as if it had not been.

config   `TrainingConfig`, the learning rate, device, precision, seeds
loop     `train_loop`: the training loop, one page; `Trainable`: what it needs of a model
sampler  `Sampler`: batches as a pure function of (seed, step); windows, negative items
state    checkpoints; `TrainingHistory`: one row per log point; `Callback`: what others are told
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
