"""One worker process of a grid: `python -m leporid.runs.worker SPECS --root results`."""

from __future__ import annotations

import argparse

from leporid.artifacts import read_json
from leporid.runs.grid import work
from leporid.runs.spec import ExperimentSpec

__all__ = ["main"]


def main() -> None:
    """Parse the few arguments the grid runner passes, and work until nothing is left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("specs", help="a JSON list of experiment specs")
    parser.add_argument("--root", required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--retry-failed", action="store_true")
    given = parser.parse_args()
    for values in read_json(given.specs):
        cells = ExperimentSpec.from_dict(values).cells()
        work(cells, given.root, device=given.device, retry_failed=given.retry_failed)


if __name__ == "__main__":
    main()
