"""The names of the models, and the recipe `general` of neural ones."""

from typing import Any

from leporid.foundation import JsonValue, Registry, SettingValue

# Its classes are `Recommender`s, which look up models here and so cannot be imported.
_registry: Registry[Any] = Registry(
    "model",
    {
        "toppop": "leporid.models.closed_form.toppop:TopPop",
        "recent": "leporid.models.closed_form.recent:Recent",
        "frequency": "leporid.models.closed_form.frequency:Frequency",
        "userknn": "leporid.models.closed_form.userknn:UserKNN",
        "itemknn": "leporid.models.closed_form.itemknn:ItemKNN",
        "slim": "leporid.models.closed_form.slim:SLIM",
        "ease": "leporid.models.closed_form.ease:EASE",
        "p3alpha": "leporid.models.closed_form.p3alpha:P3Alpha",
        "rp3beta": "leporid.models.closed_form.rp3beta:RP3Beta",
        "transitions": "leporid.models.closed_form.transitions:Transitions",
        "ials": "leporid.models.closed_form.ials:IALS",
        "gfcf": "leporid.models.closed_form.gfcf:GFCF",
        "turbocf": "leporid.models.closed_form.turbocf:TurboCF",
        "bpr": "leporid.models.neural.bpr:BPR",
        "ncf": "leporid.models.neural.ncf:NCF",
        "ngcf": "leporid.models.neural.ngcf:NGCF",
        "dgcf": "leporid.models.neural.dgcf:DGCF",
        "hgn": "leporid.models.neural.hgn:HGN",
        "lightgcn": "leporid.models.neural.lightgcn:LightGCN",
        "sasrec": "leporid.models.neural.sasrec:SASRec",
        "dlr2": "leporid.models.neural.dlr2.model:DLR2",
        "blend": "leporid.models.blend:Blend",
    },
)

available = _registry.available
get = _registry.get
register = _registry.register


def describe(name: str) -> dict[str, JsonValue]:
    """Return what the model `name` is, takes and can do, as plain values."""
    model_class = get(name)
    recipes = dict(model_class.recipes)
    for kind, changes in model_class.general_by_kind.items():
        recipes[f"general ({kind})"] = changes
    return {
        **_registry.describe(name),
        "initial_embeddings": model_class.takes_initial_vectors,
        "new_users": model_class.supports_new_users(),
        "uses_weights": model_class.uses_weights,
        "recipes": recipes,
        "settings": model_class.config_class.describe(),
    }


GENERAL: dict[str, SettingValue] = {
    "schedule": "inverse-root",
    "ema_share": 0.1,
    "steps": 10_000,
    "epochs": 0.0,
    "eval_every": 125,
    "patience": 4,
}
"""The recipe `general` of neural models: patience on validation ends a run, on any data."""
