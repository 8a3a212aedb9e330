"""Embeddings into other libraries' models and files, and back; trained models into other systems.

`initialize` fills the tables of a torch module, `to_implicit` those of a model of `implicit`;
`write_embeddings` and `read_embeddings` know the file formats. `export_model` writes a trained
model for an index or a database, and compares their lists with its own.

faiss_index     `FaissIndex`: an exact index of the items beside the parquet files
formats         One call to write embeddings in any format, one to read them back
model_export    `export_model`: a model into another system, checked against its own lists
parquet_files   `ParquetFiles`: vectors as files, for everything that has its own search
postgres        `PostgresTables`: users, items and a function that recommends, in PostgreSQL
qdrant          `QdrantCollections`: users and items in Qdrant, local or on a server
rows            Which embedding belongs in which row of another library's table; `to_implicit`
targets         The systems that `export_model` can write into, by name
torch_modules   `initialize`: initial embeddings into the tables of any torch module
torch_tables    The tables of a torch module by name, and what can be written into them
vectors         `ModelVectors`; `refreshed`: in an earlier export's coordinates, with what changed
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
