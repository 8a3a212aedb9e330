"""The grids behind the paper's tables and sensitivity figures.

They are the TOML files in `grids/`, for ML-1M with one seed; `quick.toml` says what `--quick`
changes. One group of runs serves several tables: Table 5 shows the tail users of Table 3's runs.
Anime has no times: it is split at random.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leporid.errors import UnknownNameError
from leporid.runs import ExperimentSpec
from reproduction.tables import paper_dataset

GRIDS = Path(__file__).parent / "grids"
LEADERBOARD = GRIDS / "leaderboard.toml"
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
"""The groups of runs that a table or figure is made from."""
GROUPS = tuple(dict.fromkeys(group for groups in TABLE_GROUPS.values() for group in groups))

_SHOWN: dict[str, tuple[dict[str, tuple[str, ...]], ...]] = {
    "table4": ({"inits": ("leporid",)}, {"models": ("dlr2",), "inits": ("le",)}),
    "table5": ({"models": ("dlr2",)},),
}
"""The parts of the group `initialisers` that a table shows."""


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
        values |= {"name": group_name(group, quick), **changes["every"], **changes.get(group, {})}
    return ExperimentSpec.from_dict(values)


def group_name(group: str, quick: bool) -> str:
    """The name its records are filed under; quick runs have names of their own."""
    return f"{group}-quick" if quick else group


def protocol_of(dataset: str) -> str:
    """How a data set is split: by time, and Anime, which has none, at random."""
    return "random" if paper_dataset(dataset) == "anime" else "temporal"


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((GRIDS / f"{name}.toml").read_text("utf-8"))
