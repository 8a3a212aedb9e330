"""Embeddings into other people's modules and files, and back.

`initialize` fills the tables of a torch module, `to_implicit` those of a model of `implicit`;
`write_embeddings` and `read_embeddings` know seven file formats.

formats        One call to write embeddings in any format, one to read them back
implicit       Starting vectors into the models of `implicit` (CPU): BPR, ALS and logistic MF
recbole        A split as RecBole's benchmark files
rows           Which embedding belongs in which row of someone else's table
tables         Reading and writing each: parquet, CSV, `.npy`, word2vec text, RecBole, `implicit`
torch_modules  `leporid.initialize`: starting vectors into the embedding tables of any torch module
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
