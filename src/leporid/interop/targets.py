"""The systems that `export_model` can write `ModelVectors` into, by name.

Each target is written, as a whole or as changes, and can be searched as its users will search it.
"""

from leporid.interop.faiss_index import FaissIndex
from leporid.interop.parquet_files import ParquetFiles
from leporid.interop.postgres import PostgresTables
from leporid.interop.qdrant import QdrantCollections

TARGETS: dict[str, type[ParquetFiles]] = {
    "faiss": FaissIndex,
    "parquet": ParquetFiles,
    "pgvector": PostgresTables,
    "qdrant": QdrantCollections,
}
