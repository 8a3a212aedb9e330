"""The names of the models, and the recipe `general` of neural ones."""

from typing import Any

from leporid.config import Registry

# Of `Recommender`s, which look up their own class here and so cannot be imported.
_registry: Registry[Any] = Registry(
    "model",
    {
        "toppop": "leporid.models.toppop:TopPop",
        "recent": "leporid.models.recent:Recent",
        "frequency": "leporid.models.frequency:Frequency",
        "userknn": "leporid.models.userknn:UserKNN",
        "itemknn": "leporid.models.itemknn:ItemKNN",
        "slim": "leporid.models.slim:SLIM",
        "ease": "leporid.models.ease:EASE",
        "p3alpha": "leporid.models.p3alpha:P3Alpha",
        "rp3beta": "leporid.models.rp3beta:RP3Beta",
        "ials": "leporid.models.ials:IALS",
        "gfcf": "leporid.models.gfcf:GFCF",
        "turbocf": "leporid.models.turbocf:TurboCF",
        "bpr": "leporid.models.bpr:BPR",
        "ncf": "leporid.models.ncf:NCF",
        "ngcf": "leporid.models.ngcf:NGCF",
        "dgcf": "leporid.models.dgcf:DGCF",
        "hgn": "leporid.models.hgn:HGN",
        "lightgcn": "leporid.models.lightgcn:LightGCN",
        "sasrec": "leporid.models.sasrec:SASRec",
        "dlr2": "leporid.models.dlr2.model:DLR2",
        "blend": "leporid.models.blend:Blend",
    },
)

available = _registry.available
get = _registry.get
register = _registry.register


def describe(name: str) -> dict[str, Any]:
    """What the model `name` is, takes and can do, as plain values."""
    cls = get(name)
    return {
        **_registry.describe(name),
        "initial_embeddings": cls.takes_initial_vectors,
        "new_users": cls.supports_new_users(),
        "uses_weights": cls.uses_weights,
        "recipes": cls.recipes
        | {f"general ({kind})": change for kind, change in cls.general_by_kind.items()},
        "settings": cls.config_class.describe(),
    }


GENERAL: dict[str, Any] = {
    "schedule": "inverse-root", "ema_share": 0.1, "steps": 10_000, "passes": 0.0,
    "eval_every": 125, "patience": 4,
}  # fmt: skip
"""The recipe `general` of neural models: patience on validation ends a run, on any log."""
