"""Paired tests between the runs of a table: is the best really better than the rest?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from leporid.evaluation.significance import holm
from leporid.paper.tables import PaperTable, TableRow
from leporid.runs.outcomes import UserOutcomes

__all__ = ["against_best"]


def against_best(table: PaperTable, root: str | Path, n: int = 10) -> list[dict[str, Any]]:
    """For every row but the best by HR@n: the mean difference per user, and Holm-corrected p.

    Values are averaged over a row's seeds before the test, so a user counts once.
    """
    from scipy.stats import wilcoxon

    order = table.ranked(f"HR@{n}")
    found = [(number, _outcomes(table.rows[number], root)) for number in order]
    usable = [(number, runs) for number, runs in found if runs]
    if len(usable) < 2:
        return []
    users = usable[0][1][0].user
    best_number, best_runs = usable[0]
    best = np.mean([run.f1(n) for run in best_runs], axis=0)
    results: list[dict[str, Any]] = []
    for number, runs in usable[1:]:
        if any(not np.array_equal(run.user, users) for run in runs):
            continue
        gap = best - np.mean([run.f1(n) for run in runs], axis=0)
        p = 1.0 if not np.any(gap) else float(wilcoxon(gap).pvalue)
        results.append({"row": _name(table.rows[number]), "gap": float(gap.mean()), "p": p})
    for result, corrected in zip(results, holm([r["p"] for r in results]), strict=True):
        result["p_holm"] = float(corrected)
        result["best"] = _name(table.rows[best_number])
    return results


def _name(row: TableRow) -> str:
    return " ".join(part for part in row.key if part != "-")


def _outcomes(row: TableRow, root: str | Path) -> Sequence[UserOutcomes]:
    paths = [record.path(root).with_suffix(".users.parquet") for record in row.records]
    return [UserOutcomes.read(path) for path in paths if path.is_file()]
