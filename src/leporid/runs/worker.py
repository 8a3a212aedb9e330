"""One worker process of a grid: `python -m leporid.runs.worker` reads its work from stdin."""

from __future__ import annotations

import json
import sys

from leporid.runs.cell import Cell
from leporid.runs.grid import work

__all__ = ["main"]


def main() -> None:
    """Read `{"cells": [...], "options": {...}}` as JSON, and work until nothing is left."""
    task = json.load(sys.stdin)
    work([Cell.from_dict(values) for values in task["cells"]], **task["options"])


if __name__ == "__main__":
    main()
