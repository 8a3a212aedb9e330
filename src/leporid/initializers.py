"""Initial embeddings by name: what `leporid.embeddings` offers to pages and programs."""

from leporid.embeddings import (
    Embedding,
    InitialEmbeddings,
    Initializer,
    InitializerConfig,
    available,
    cached_fit,
    describe,
    get,
    initial_embeddings,
    register,
    standardize,
)

__all__ = [
    "Embedding",
    "InitialEmbeddings",
    "Initializer",
    "InitializerConfig",
    "available",
    "cached_fit",
    "describe",
    "get",
    "initial_embeddings",
    "register",
    "standardize",
]
