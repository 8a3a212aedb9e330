"""The recommenders: `train` fits one by name, `Recommender` is what they all are.

`available`, `get` and `register` name them. To add one, write a file in `closed_form/` or `neural/`
and name it in `registry.py`.

base            `Recommender`: the interface of every model
baselines       Simple models that a training has to beat, fitted and validated first
blend           Blend: several models as one, their rankings averaged
callbacks       `Callback`: told about a training, and able to end it; `JsonLines` for machines
closed_form/    Models that are computed rather than trained, one file each
context         `FitContext`: how a fit runs, as opposed to what is fitted
feature_tables  Feature tables of items and users: whether they help, on validation
final_split     `everything`: all interactions as one training part, for the final fit
fitted_arrays   `FittedArray`: an array that a model learns, checked and saved
fitting         `Fitting`: how a model was fitted, so that it can be fitted again
history         `TrainingHistory`: what a training recorded over its steps
item_vectors    Vectors that say how alike items are, for rules about diversity
merged_log      `merge_interactions`: what a model knows and a new log, with the ids of both
neural/         Models that are trained step by step, one file each, and their trainer
recipes         Named settings, and the kinds of data that `general` tells apart
registry        The names of the models
saved_models    The folder of a saved model: written, read and found
spec            `ModelSpec`: what to fit, every default resolved
trained_tables  `read_trained`: the tables of a saved model as initial embeddings
training        `train`: fit a model by name; `fit` a spec; the final fit on everything
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
