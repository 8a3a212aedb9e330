"""Embeddings into other people's modules and files, and back.

arrays         Formats made of numpy arrays: `.npy` with ids, and the factors `implicit` works with
formats        One call to write embeddings in any format, one to read them back
implicit       Starting vectors into the models of `implicit` (CPU): BPR, ALS and logistic MF
recbole        RecBole's `.useremb` and `.itememb` files, with the settings that make RecBole read t
rows           Which embedding belongs in which row of someone else's table
sides          What every file format shares: ids as text, provenance beside the vectors, all or not
tables         Formats made of tables: parquet (id, vector) and CSV (id, then one column an entry)
torch_modules  `leporid.initialize`: starting vectors into the embedding tables of any torch module
trained        The vectors of a trained model, read from its folder without building the model
word2vec       The text format of word2vec: a line `n d`, then an id and d numbers a line
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
