"""The names of the models, the recipe `general`, and the kinds of log that it tells apart.

The seven logs the limits were set on, and what each limit decides, are in docs/models.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from leporid.registry import Registry

if TYPE_CHECKING:
    from leporid.data import Interactions

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

_SHORT, _LONG = 25, 50
"""Training interactions per user, on average."""
_SMALL, _LARGE = 50_000, 200_000
"""Training interactions."""

KINDS: dict[str, Callable[[Interactions], bool]] = {
    "short histories": lambda train: len(train) < _SHORT * train.n_users,
    "small": lambda train: len(train) < _SMALL,
    "large": lambda train: len(train) >= _LARGE,
    "large with long histories in order": lambda train: (
        len(train) >= max(_LARGE, _LONG * train.n_users) and train.time is not None
    ),
    "large without order": lambda train: len(train) >= _LARGE and train.time is None,
}
"""By name, the general ones before the special ones."""


def kinds_of(train: Interactions) -> list[str]:
    """The kinds a training part belongs to."""
    return [name for name, belongs in KINDS.items() if belongs(train)]
