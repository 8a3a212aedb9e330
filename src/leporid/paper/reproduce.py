"""The paper's tables and sensitivity figures as experiment specs, ready to run.

One group of runs serves several tables: Table 4 is the tail-user view of runs Table 2 needs anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from leporid.errors import UnknownNameError
from leporid.runs.spec import ExperimentSpec

__all__ = ["GROUPS", "QUICK_NOTE", "QUICK_SUFFIX", "TABLE_GROUPS", "paper_spec", "paper_specs"]

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

_TABLE_CELLS: dict[str, tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]] = {
    "table2": ((PAPER_MODELS, INITIALISERS),),
    "table3": ((PAPER_MODELS, ("leporid",)), (("dlr2",), ("le",))),
    "table4": ((("dlr2",), INITIALISERS),),
}
"""Which models from which initialisers a table shows of the group `initialisers`."""

_QUICK_SETTINGS: dict[str, dict[str, Any]] = {
    "dlr2": {"steps": 1000, "architecture": "no_conv"},
    "ncf": {"steps": 1500},
    "ngcf": {"steps": 600},
    "dgcf": {"steps": 150},
    "hgn": {"steps": 800},
    "bpr": {"steps": 2000},
}
"""Steps that two cores do in about half a minute a model on ML-100K: a real table, not a tuned one.
A step of DLR2's ResNet takes 0.4 s there, one of its fully connected network 0.03 s."""
_QUICK_INITIALISERS = ("random", "le", "leporid")
_QUICK_ARCHITECTURE_STEPS = 200
QUICK_SUFFIX = "-quick"
"""Quick runs are filed under names of their own."""
QUICK_NOTE = (
    "Quick settings: short training, nothing tuned, one seed unless asked for more, and DLR2 with "
    "its fully connected network (no_conv) in place of the ResNet, except where architectures are "
    "compared. Leave out --quick for the full table."
)
"""Printed below every table of quick runs."""


def paper_specs(names: Sequence[str], dataset: str, **options: Any) -> list[ExperimentSpec]:
    """The grids behind some tables and figures, without the runs none of them shows."""
    specs: list[ExperimentSpec] = []
    for group in dict.fromkeys(group for name in names for group in TABLE_GROUPS.get(name, ())):
        spec = paper_spec(group, dataset, **options)
        if group != "initialisers" or "table2" in names:
            specs.append(spec)
            continue
        shown = [part for name in names for part in _TABLE_CELLS.get(name, ())]
        specs += [
            replace(spec, models=models, inits=tuple(i for i in spec.inits if i in inits))
            for models, inits in dict.fromkeys(shown)
        ]
    return specs


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
        "name": group + (QUICK_SUFFIX if quick else ""),
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
        inits = _QUICK_INITIALISERS if quick else INITIALISERS
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
        short = {"steps": _QUICK_ARCHITECTURE_STEPS} if quick else {}
        values["variants"] = [
            {"name": name, "model": "dlr2", "settings": {"architecture": name, **short}}
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
