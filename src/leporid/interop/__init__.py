"""Embeddings into other libraries' models and files, and back; trained models into other systems.

`initialize` fills the tables of a torch module, `to_implicit` those of a model of `implicit`;
`write_embeddings` and `read_embeddings` know the file formats. `export_model` writes a trained
model for an index or a database, and compares their lists with its own.

formats        One call to write embeddings in any format, one to read them back
model_export   `export_model`: a model into another system, checked against its own lists
rows           Which embedding belongs in which row of another library's table; `to_implicit`
torch_modules  `leporid.initialize`: initial embeddings into the tables of any torch module
targets        Where models can go: parquet, faiss, Qdrant, PostgreSQL
vectors        `ModelVectors`; `refreshed`: in an earlier export's coordinates, with what changed
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
