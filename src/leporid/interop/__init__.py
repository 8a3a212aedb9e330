"""Embeddings into other people's modules and files, and back; trained models into their systems.

`initialize` fills the tables of a torch module, `to_implicit` those of a model of `implicit`;
`write_embeddings` and `read_embeddings` know seven file formats. `export_model` hands a trained
model to an index, a database or onnxruntime, and compares their lists with its own.

formats          One call to write embeddings in any format, one to read them back
implicit         Starting vectors into the models of `implicit` (CPU): BPR, ALS and logistic MF
model_export     `export_model`: a model into another system, checked against its own lists
model_vectors    `ModelVectors`: what an index or a database needs to rank as a model does
onnx_encoder     A model's encoder of histories as an ONNX file
postgres_tables  Tables of PostgreSQL with pgvector, and a function that ranks with them
rows             Which embedding belongs in which row of someone else's table
tables           Writing each: parquet, CSV, `.npy`, word2vec, RecBole's vectors and benchmark files
torch_modules    `leporid.initialize`: starting vectors into the tables of any torch module
trained_tables   Rows that stay near their start, and new rows among trained ones
vector_targets   Parquet files, a faiss index and Qdrant's collections
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
