"""`leporid leaderboard`: the best of each family of models on each log of a grid."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument

from leporid.cli.options import Json
from leporid.cli.output import print_rows


def leaderboard(
    spec: Annotated[Path, Argument(help="Experiment file (TOML).")] = Path(
        "experiments/leaderboard.toml"
    ),
    root: Annotated[Path, "Where records are kept."] = Path("results"),
    json_output: Json = False,
) -> None:
    """For each log of SPEC the best row of each family of models, chosen on validation.

    Beside the records of the grid it reads those of `leporid tune all-classical` (the experiment
    'baselines'). What was not run is said so.
    """
    from leporid.runs import best_of_families, read_leaderboard

    none = {"row": "not run yet", "NDCG@10": "", "HR@10": ""}
    logs = best_of_families(read_leaderboard(spec, root))
    rows = [
        {"log": log["log"], "family": family, **(best or none)}
        for log in logs
        for family, best in log["best"].items()
    ]
    print_rows("the best of each family on validation, as it is on test", rows, json_output, logs)
