"""Which linear model beside a network? DLR2 with each, on splits inside train and validation.

`python -m benchmarks.linear_models --data FOLDER --out FILE [--logs "a;b"]` trains DLR2's network
once per log and adds each of `CANDIDATES` to its scores with nine gains. The gain is found on the
validation of the inner split and asked again on its last part; the test part is never read. Scores
of all candidates are brought to the size of the first. `--collect FILE..` adds to the record.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import leporid
from benchmarks.classical_defaults import LOGS, split_of
from benchmarks.harness import RECORDS, write_record
from benchmarks.linear_part import HIDDEN
from benchmarks.sequence_settings import curve, means
from leporid.data import inner_validation_split
from leporid.foundation import read_json
from leporid.models.closed_form.history_window import sample_validation_users

NAME = "linear_models"
CANDIDATES: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        f"slim {l1:g}/{l2:g}": ("slim", {"l1": l1, "l2": l2})
        for l1, l2 in ((1, 100), (3, 30), (0.5, 50), (0.1, 30))
    },
    **{name: (name, {}) for name in ("rp3beta", "p3alpha", "itemknn", "ease", "ials")},
}
"""Models and settings; those but SLIM as they come. The closed-form part has the first two."""
_USERS = 6000
"""Users who are asked for each gain, at most."""


class _Scaled:
    """What `curve` asks for: scores of histories, times a factor."""

    def __init__(self, model: Any, factor: float) -> None:
        self.model, self.factor = model, np.float32(factor)

    def score_profile(self, histories: Any) -> Any:
        return self.model.score_profile(histories) * self.factor


def rows(data: Path, name: str, seed: int) -> list[dict[str, Any]]:
    """A row per candidate."""
    split = inner_validation_split(split_of(data, *(LOGS | HIDDEN)[name]))
    how: dict[str, Any] = {
        "seed": seed,
        "device": "cpu",
        "progress": False,
        "linear_weight": 0.0,
        "transitions_weight": 0.0,
    }
    network: Any = leporid.train("dlr2", split, init="leporid", recipe="general", **how)
    users, _ = sample_validation_users(split)
    known, unit, found = split.train.sequences().take(users), None, []
    for label, (model, settings) in CANDIDATES.items():
        fitted: Any = leporid.models.get(model)(**settings).fit(split, progress=False)
        largest = float(fitted.score_profile(known, users).max(axis=1).mean())
        unit = unit or largest
        scaled = _Scaled(fitted, unit / largest)
        row = {"log": name, "model": label, "seed": seed, "users": _USERS}
        for part, when in (("valid", "valid"), ("test", "later")):
            row[when] = means(curve(network, scaled, split, part, _USERS))
            table = leporid.evaluate(fitted, split, part=part, at=(10,), metrics=("NDCG",))
            row[f"{when}, alone"] = round(table.mean()["NDCG@10"], 6)
        found.append(row)
    return found


def collect(files: list[Path]) -> None:
    """Add the lines of FILES to the record; compare models that the same users were asked of."""
    path = RECORDS / f"{NAME}.json"
    old = read_json(path)["rows"] if path.is_file() else []
    new = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    names = ("log", "users", "model", "seed")
    kept = {tuple(str(row[name]) for name in names): row for row in [*old, *new]}
    settings = {"init": "leporid", "recipe": "general", "network": "dlr2"}
    notes = [
        "`users`: those asked for each gain, at most. Models are compared where it is the same.",
        "The rows of all users are of an earlier pass, with other candidates beside the two SLIMs.",
    ]
    write_record(NAME, [kept[key] for key in sorted(kept)], settings, notes)


def main() -> None:
    """A line of JSON for each log and candidate."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--logs", default=";".join(LOGS | HIDDEN))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--collect", type=Path, nargs="+")
    arguments = parser.parse_args()
    if arguments.collect:
        collect(arguments.collect)
        return
    for name in arguments.logs.split(";"):
        with arguments.out.open("a") as file:
            for row in rows(arguments.data, name, arguments.seed):
                file.write(json.dumps(row) + "\n")
                file.flush()


if __name__ == "__main__":
    main()
