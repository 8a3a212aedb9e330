"""What an initialisation is worth: runs the cells of `initialisation-study.toml`.

    python -m reproduction.initialisation_study run --out DIR --workers 15 --seconds 560
    python -m reproduction.initialisation_study add --done DIR/cells.jsonl
    python -m reproduction.initialisation_study tables

Every finished cell is a line of `DIR/cells.jsonl`. `--done FILE` names cells that are finished;
`add` puts them into `--results`, and `tables` prints what docs/initialisation.md shows of those.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from reproduction.study_cells import cells
from reproduction.study_runner import run_all
from reproduction.study_tables import add_records, tables


def main() -> None:
    """Run the cells that are not done, or as many as the time allows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["run", "list", "add", "tables"])
    parser.add_argument("--out", type=Path, default=Path("initialisation-study"))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=560.0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--done", type=Path, action="append", default=[])
    parser.add_argument("--part", default="", help="only cells whose name contains this")
    parser.add_argument("--share-gpu", action="store_true", help="try NVIDIA's MPS")
    parser.add_argument("--results", type=Path, default=Path("results"))
    given = parser.parse_args()
    if given.what == "add":
        print(sum(add_records(path, given.results) for path in given.done), "records")
        return
    if given.what == "tables":
        print("\n\n".join(f"{name}\n\n{text}" for name, text in tables(given.results).items()))
        return
    done = {line["extra"]["key"] for path in given.done for line in read_lines(path)}
    todo = [cell for cell in cells() if cell.key not in done and given.part in cell.key]
    if given.what == "list":
        expected = sum(cell.expected_seconds for cell in todo)
        print(f"{len(todo)} cells, about {expected:,.0f} seconds of one worker")
        return
    run_all(todo, given.out, given.workers, given.seconds, given.device, given.share_gpu)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The cells of a file; none where there is no file."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    main()
