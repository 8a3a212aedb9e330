"""The paper's tables and sensitivity figures as experiment specs, ready to run.

One group of runs serves several tables: Table 4 is the tail-user view of runs Table 2 needs anyway.
"""

from __future__ import annotations

from typing import Any

from leporid.errors import UnknownNameError
from leporid.experiments.spec import ExperimentSpec

__all__ = ["GROUPS", "TABLE_GROUPS", "paper_spec"]

INITIALISERS = ("random", "svd", "bpr", "netmf", "node2vec", "graph_bert", "le", "leporid")
PAPER_MODELS = ("ncf", "ngcf", "dgcf", "hgn", "dlr2")
CLASSICAL = ("toppop", "userknn", "itemknn", "slim")
AS_PUBLISHED = {
    name: {"standardize": False} for name in ("svd", "bpr", "netmf", "node2vec", "graph_bert")
}
"""The paper z-scores its own two methods and uses the others' vectors as they come."""
STANDARDIZED = ("svd", "bpr", "netmf", "node2vec", "graph_bert")
ALPHAS = (0.0, 0.3, 0.5, 0.7, 1.0)
NEIGHBOURS = (100, 200, 500, 1000, 2000)

TABLE_GROUPS: dict[str, tuple[str, ...]] = {
    "table2": ("initialisers",),
    "table3": ("baselines", "bpr", "initialisers"),
    "table4": ("initialisers",),
    "table5": ("losses",),
    "table6": ("architectures",),
    "alpha": ("alpha",),
    "neighbours": ("neighbours",),
    "standardised": ("standardised",),
}
"""Which groups of runs a table or figure is made from."""

GROUPS = (
    "baselines",
    "bpr",
    "initialisers",
    "standardised",
    "losses",
    "architectures",
    "alpha",
    "neighbours",
)

_QUICK_SETTINGS: dict[str, dict[str, Any]] = {
    "dlr2": {"steps": 600},
    "ncf": {"steps": 1500},
    "ngcf": {"steps": 600},
    "dgcf": {"steps": 150},
    "hgn": {"steps": 1500},
    "bpr": {"steps": 2000},
}
"""Steps that two cores do in under a minute a model on ML-100K: a real table, not a tuned one."""


def paper_spec(
    group: str,
    dataset: str,
    *,
    source: str | None = None,
    seeds: tuple[int, ...] = (123,),
    trials: int | None = None,
    core: int = 20,
    quick: bool = False,
) -> ExperimentSpec:
    """The spec of one group of runs. `quick` shortens training and skips tuning."""
    if group not in GROUPS:
        raise UnknownNameError("group of runs", group, GROUPS)
    values: dict[str, Any] = {
        "name": f"{group}-quick" if quick else group,
        "dataset": dataset,
        "source": source,
        "seeds": seeds,
        "core": core,
        "recipes": {"dlr2": "paper"},
        "trials": 0 if trials is None else trials,
        "settings": _QUICK_SETTINGS if quick else {},
    }
    if group == "baselines":
        values |= {
            "models": CLASSICAL,
            "trials": 0 if quick else (20 if trials is None else trials),
        }
    elif group == "bpr":
        values |= {"models": ("bpr",), "inits": ("random", "leporid")}
    elif group == "initialisers":
        inits = ("le", "leporid") if quick else INITIALISERS
        values |= {"models": PAPER_MODELS, "inits": inits, "settings_with": AS_PUBLISHED}
    elif group == "standardised":
        values |= {"models": ("dlr2",), "inits": STANDARDIZED}
    elif group == "losses":
        values["variants"] = [
            {
                "name": f"infer-{branch}-loss-{name}",
                "model": "dlr2",
                "settings": {"losses": loss, "inference": inference},
            }
            for branch, name, loss, inference in (
                ("G", "G", "generative", "generative"),
                ("G", "G+S", "both", "generative"),
                ("S", "S", "discriminative", "discriminative"),
                ("S", "G+S", "both", "discriminative"),
            )
        ]
    elif group == "architectures":
        values["variants"] = [
            {"name": name, "model": "dlr2", "settings": {"architecture": name}}
            for name in ("no_conv", "only_conv", "resnet", "revnet")
        ]
    elif group == "alpha":
        values["variants"] = [
            {"name": f"alpha-{alpha}", "model": "dlr2", "init_settings": {"alpha": alpha}}
            for alpha in ALPHAS
        ]
    else:
        values["variants"] = [
            {"name": f"k-{k}", "model": "dlr2", "init_settings": {"k": k}} for k in NEIGHBOURS
        ]
    return ExperimentSpec.from_dict(values)
