"""The names of the initialisers, resolved when they are asked for."""

from typing import TYPE_CHECKING, TypedDict

from leporid.foundation import Registry, SettingDescription

if TYPE_CHECKING:
    from leporid.embeddings.base import Initializer

_registry: "Registry[Initializer]" = Registry(
    "initialiser",
    {
        "random": "leporid.embeddings.random:Random",
        "svd": "leporid.embeddings.svd:SVD",
        "bpr": "leporid.embeddings.bpr:BPRInitializer",
        "netmf": "leporid.embeddings.netmf:NetMF",
        "node2vec": "leporid.embeddings.node2vec:Node2Vec",
        "graph_bert": "leporid.embeddings.graph_bert:GraphBert",
        "le": "leporid.embeddings.leporid:LaplacianEigenmapsInitializer",
        "leporid": "leporid.embeddings.leporid:LeporidInitializer",
        "content": "leporid.embeddings.content:Content",
        "leporid_content": "leporid.embeddings.leporid_content:LEPORIDContent",
    },
)

available = _registry.available
get = _registry.get
register = _registry.register


class InitializerDescription(TypedDict):
    """An initialiser and its settings, as plain values."""

    name: str
    what: str
    """First sentence of the module: what the method is."""
    how: str
    """First sentence of the class: how it works."""
    standardized: bool
    """Whether models z-score the vectors."""
    settings: list[SettingDescription]


def describe(name: str) -> InitializerDescription:
    """Describe the initialiser `name` and its settings."""
    initializer = get(name)
    description = _registry.describe(name)
    return {
        "name": description["name"],
        "what": description["what"],
        "how": description["how"],
        "standardized": initializer.standardize_by_default,
        "settings": initializer.config_class.describe(),
    }
