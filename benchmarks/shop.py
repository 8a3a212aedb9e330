"""What `choose` finds for the synthetic shop: the first two commands of docs/shop.md, literally.

`python -m benchmarks.shop` writes `records/shop.json`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.harness import write_record

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = re.compile(r"^(?:python -m|leporid (?=choose)).*$", re.MULTILINE)


def main() -> None:
    """Make the log, choose, and keep what was tested."""
    page = (ROOT / "docs" / "shop.md").read_text(encoding="utf-8").replace("\\\n", " ")
    make, choose = (" ".join(line.split()) for line in COMMANDS.findall(page))
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    with tempfile.TemporaryDirectory() as folder:
        for line in (make.removeprefix("python -m "), f"{choose} --json"):
            told = subprocess.check_output(
                [sys.executable, "-m", *line.split()], text=True, cwd=folder, env=variables
            )
    rows = [
        {"model": row["model"]} | {name: round(row[name], 4) for name in ("NDCG@10", "HR@10")}
        for row in json.loads(told)["tested"]
    ]
    write_record(
        "shop",
        rows,
        {"log": make, "command": choose},
        [
            "On test: the chosen model, then the baselines that are always tested.",
            "With a clock in the search, another machine may choose other settings.",
        ],
    )


if __name__ == "__main__":
    main()
