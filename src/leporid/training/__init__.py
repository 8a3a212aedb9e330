"""The one training loop of all neural models: samplers, schedules, checkpoints.

backward       Loss and gradients of one batch: launched operation by operation, or replayed as one
checkpoint     Checkpoints: everything a run needs to go on, in one file that is wholly there or not
config         Settings every neural model has
data           Interactions as tensors on the device that trains, and the windows cut from them
history        What happened during training: one row a log point
interrupt      Ctrl-C asks the loop to stop between two steps, so that a checkpoint is whole
loop           The training loop: every neural model, one page
negatives      Negative items: never a training positive of the user, exactly, without a retry
parallel       Data parallel training over processes started by `torchrun`
precision      Mixed precision: where it is used, and a check that it can be
sampler        Batches as a pure function of (seed, step), made on the device that trains
schedule       The learning rate as a function of the step alone
seeding        Seeds for every random choice, derived from one number
torch_threads  Torch's thread count, kept
validation     Model selection: the metric on the validation part, and the best weights so far
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
