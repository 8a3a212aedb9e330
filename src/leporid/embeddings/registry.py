"""The names of the initialisers, resolved when they are asked for."""

from typing import Any

from leporid.registry import Registry

_registry: Registry[Any] = Registry(
    "initialiser",
    {
        "random": "leporid.embeddings.random:Random",
        "svd": "leporid.embeddings.svd:SVD",
        "bpr": "leporid.embeddings.bpr:BPR",
        "netmf": "leporid.embeddings.netmf:NetMF",
        "node2vec": "leporid.embeddings.node2vec:Node2Vec",
        "graph_bert": "leporid.embeddings.graph_bert:GraphBert",
        "le": "leporid.embeddings.leporid:LE",
        "leporid": "leporid.embeddings.leporid:LEPORID",
        "content": "leporid.embeddings.content:Content",
        "leporid_content": "leporid.embeddings.content:LEPORIDContent",
    },
)

available = _registry.available
get = _registry.get
register = _registry.register


def describe(name: str) -> dict[str, Any]:
    """What the initialiser `name` is and takes, as plain values."""
    cls, about = get(name), _registry.describe(name)
    settings = cls.config_class.describe()
    return {**about, "standardized": cls.standardize_by_default, "settings": settings}
