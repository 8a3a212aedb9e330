"""Initial embeddings by name: what `leporid.embeddings` offers to pages and programs.

Names are loaded on first use, like those of every package.
"""

from leporid import embeddings

_NAMES = [
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


def __getattr__(name: str) -> object:
    """Return a public name of `leporid.embeddings`."""
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(embeddings, name)


def __dir__() -> list[str]:
    """Return the public names."""
    return _NAMES
