"""The paper's tables and sensitivity figures as experiment specs, ready to run.

The grids are the TOML files in `grids/`, for ML-1M with one seed; `quick.toml` there says what
`--quick` changes. One group of runs serves several tables: Table 5 is the tail-user view of runs
Table 3 needs anyway. Anime has no times: it is split at random.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib import resources
from typing import Any

from leporid.errors import ConfigError, UnknownNameError
from leporid.paper.tables import paper_dataset
from leporid.runs import ExperimentSpec

TABLES = {
    "table2": "data sets",
    "table3": "initialisers",
    "table4": "algorithms",
    "table5": "tail users",
    "table6": "losses",
    "table7": "architectures",
}
"""The paper's tables by its own numbers; its Table 1 is the notation."""

TABLE_GROUPS: dict[str, tuple[str, ...]] = {
    "table3": ("initialisers",),
    "table4": ("baselines", "bpr", "initialisers"),
    "table5": ("initialisers",),
    "table6": ("losses",),
    "table7": ("architectures",),
    "figure4a": ("architectures",),
    "alpha": ("alpha",),
    "neighbours": ("neighbours",),
    "standardised": ("standardised",),
    "authors": ("authors",),
}
"""Which groups of runs a table or figure is made from."""
GROUPS = tuple(dict.fromkeys(group for groups in TABLE_GROUPS.values() for group in groups))

_SHOWN: dict[str, tuple[dict[str, tuple[str, ...]], ...]] = {
    "table4": ({"inits": ("leporid",)}, {"models": ("dlr2",), "inits": ("le",)}),
    "table5": ({"models": ("dlr2",)},),
}
"""The parts of the group `initialisers` that a table shows."""

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
        if group != "initialisers" or "table3" in names:
            specs.append(spec)
            continue
        for part in (part for name in names for part in _SHOWN.get(name, ())):
            inits = tuple(i for i in spec.inits if i in part.get("inits", spec.inits))
            specs.append(spec.replace(**{**part, "inits": inits}))
    return specs


def paper_spec(
    group: str,
    dataset: str,
    *,
    source: str | None = None,
    seeds: tuple[int, ...] = (123,),
    core: int = 20,
    min_rating: float | None = None,
    quick: bool = False,
) -> ExperimentSpec:
    """The spec of one group of runs. `quick` shortens training and skips tuning."""
    if group not in GROUPS:
        raise UnknownNameError("group of runs", group, GROUPS)
    values = _read(group) | {"dataset": dataset, "source": source, "seeds": seeds, "core": core}
    values |= {"min_rating": min_rating, "protocol": protocol_of(dataset)}
    if quick:
        changes = _read("quick")
        values |= {"name": group + QUICK_SUFFIX, **changes["every"], **changes.get(group, {})}
    return ExperimentSpec.from_dict(values)


def protocol_of(dataset: str) -> str:
    """How a data set is split: by time, and Anime, which has none, at random."""
    return "random" if paper_dataset(dataset) == "anime" else "temporal"


def renumbered(name: str) -> str | None:
    """What `name` means now, for those who know the numbers of earlier versions; None if the same.

    Tables were counted from the data statistics then, which made each number one too small.
    """
    later = {f"table{int(now[-1]) - 1}": now for now in TABLES}
    if name not in later:
        return None
    moved = f"{TABLES[later[name]]}, {name} in earlier versions, are {later[name]}"
    if name not in TABLES:
        raise ConfigError(f"the paper's Table 1 is its notation: {moved} now")
    return f"{name} is the paper's Table {name[-1]}, {TABLES[name]}; {moved} now"


def _read(name: str) -> dict[str, Any]:
    grids = resources.files("leporid.paper").joinpath("grids")
    return tomllib.loads(grids.joinpath(f"{name}.toml").read_text("utf-8"))
