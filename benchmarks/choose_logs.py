"""`leporid choose` on the logs: what it chooses, what that is worth on test, whether time is kept.

python -m benchmarks.choose_logs DATA [--budget 5m] [--only lastfm,beauty] [--keep FOLDER]

DATA is a folder with the logs named below. Each log is a process of its own; its record, with every
event of the race, is `records/choose/<log>.json`, and the table `records/choose.json`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.harness import RECORDS, machine, write_record
from leporid.artifacts import write_json
from leporid.choosing import parse_duration

LOGS: dict[str, int] = {
    "lastfm": 0,
    "movietweetings-100k": 10,
    "toys": 0,
    "beauty": 0,
    "ml-100k": 20,
    "anime-5k": 20,
    "ml-1m-r3": 20,
}
"""Name of the parquet file, and the core filter."""
METRIC = "NDCG@10"


def run(source: Path, core: int, budget: str, folder: Path) -> dict[str, Any]:
    """One choice in a fresh process; its record."""
    command = [sys.executable, "-m", "leporid", "choose", str(source), "--budget", budget]
    command += ["--core", str(core), "--metric", METRIC, "-o", str(folder)]
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - begun
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1], "wall_seconds": wall}
    lines = (folder / "race" / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    chosen = json.loads((folder / "chosen.json").read_text(encoding="utf-8"))
    events = [json.loads(line) for line in lines]
    return {"wall_seconds": wall, **chosen, "race": events, "machine": machine()}


def main() -> None:
    """All logs that are there, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--budget", default="5m")
    parser.add_argument("--only", default=",".join(LOGS))
    parser.add_argument("--keep", type=Path, help="Folder for the runs; else they are removed.")
    options = parser.parse_args()
    rows = []
    for name in options.only.split(","):
        source = options.data / f"{name}.parquet"
        if not source.is_file():
            print(f"{name}: no {source}, left out", flush=True)
            continue
        with tempfile.TemporaryDirectory() as aside:
            folder = (options.keep or Path(aside)) / name
            record = run(source, LOGS[name], options.budget, folder)
        write_json(RECORDS / "choose" / f"{name}.json", {"log": name, **record})
        seconds = parse_duration(options.budget)
        row = {
            "log": name,
            "chosen": record.get("winner", record.get("error", "")),
            f"{METRIC} on test": round(record["tested"][0][METRIC], 4) if "tested" in record else 0,
            "candidates": len(record.get("table", ())),
            "seconds": round(record["wall_seconds"], 1),
            "of the budget": round(record["wall_seconds"] / seconds, 3),
        }
        print(row, flush=True)
        rows.append(row)
    write_record("choose", rows, {"budget": options.budget, "metric": METRIC})


if __name__ == "__main__":
    main()
