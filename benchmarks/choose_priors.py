"""The prior of `leporid choose`: which models did well on logs with which statistics.

python -m benchmarks.choose_priors

Reads the packed records (results/*.jsonl) and writes src/leporid/selection/priors.json: a row per
log with its statistics and, for each model, the best NDCG@10 on validation as a share of the best
model's. Test is not read. Logs are not named: only the statistics are used.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from leporid.foundation import read_json, write_json

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "src" / "leporid" / "selection" / "priors.json"
METRIC = "NDCG@10"
MODELS = (
    *("toppop", "itemknn", "userknn", "p3alpha", "rp3beta", "turbocf", "gfcf", "ease", "slim"),
    *("ials", "dlr2", "sasrec", "hgn", "lightgcn", "bpr"),
)


def row_of(path: Path, parts: dict[str, Any]) -> dict[str, Any] | None:
    """The statistics of one log, and its models by validation; None for another file."""
    best: dict[str, float] = {}
    about: dict[str, Any] | None = None
    has_order = True
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        digest = record["extra"].get("data_digest")
        value = record["valid_metrics"].get(METRIC)
        if digest not in parts or value is None:
            continue
        about, name = parts[digest], record["model"]
        has_order = not record["extra"]["protocol"].startswith("random")
        best[name] = max(best.get(name, 0.0), value)
    if about is None:
        return None
    top = max(best.values())
    return {
        "interactions_per_user": round(about["interactions"] / about["users"], 1),
        "density": float(f"{about['density']:.2g}"),
        "has_order": has_order,
        "share_of_best": {name: round(best[name] / top, 2) for name in MODELS if name in best},
    }


def main() -> None:
    """Write the table."""
    parts = read_json(ROOT / "results" / "training-parts.json")
    rows = [row_of(path, parts) for path in sorted((ROOT / "results").glob("*.jsonl"))]
    table = sorted((row for row in rows if row), key=lambda row: row["interactions_per_user"])
    write_json(TARGET, table)
    for row in table:
        print(json.dumps(row))


if __name__ == "__main__":
    main()
