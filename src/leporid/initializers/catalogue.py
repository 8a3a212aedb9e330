"""The names of the initialisers, resolved when they are asked for."""

from typing import Any

from leporid.config import Registry

_registry: Registry[Any] = Registry(
    "initialiser",
    {
        "random": "leporid.initializers.random:Random",
        "svd": "leporid.initializers.svd:SVD",
        "bpr": "leporid.initializers.bpr:BPR",
        "netmf": "leporid.initializers.netmf:NetMF",
        "node2vec": "leporid.initializers.node2vec:Node2Vec",
        "graph_bert": "leporid.initializers.graph_bert:GraphBert",
        "le": "leporid.initializers.leporid:LE",
        "leporid": "leporid.initializers.leporid:LEPORID",
        "content": "leporid.initializers.content:Content",
        "leporid_content": "leporid.initializers.content:LEPORIDContent",
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
