"""`leporid choose` on the logs: what it chooses, what that is worth on test, whether time is kept.

python -m benchmarks.choose_logs --budget 5m --logs lastfm,beauty --out FOLDER [--data FOLDER]
                                 [--device cpu] [--keep FOLDER]
python -m benchmarks.choose_logs --table [--out FOLDER]

`--data` is a folder with the logs named below [$LEPORID_DATA]. Each log is a process of its own,
and its record, with every event of the search, is FOLDER/<log>.json. To run logs side by side give
each call one log and its own cores (taskset -c 0,1 python -m ...). `--table` makes
records/choose.json of all records. Nothing is fetched.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.harness import RECORDS, machine, write_record
from leporid.foundation import read_json, write_json
from reproduction.leaderboard import best_of_families, read_leaderboard
from reproduction.specs import LEADERBOARD

ROOT = Path(__file__).parents[1]

LOGS = {
    "lastfm": 0, "movietweetings-100k": 10, "toys": 0, "beauty": 0, "ml-100k": 0, "anime-5k": 20,
    "ml-1m-r3": 20,
}  # fmt: skip
"""The core filter of each."""
METRIC = "NDCG@10"


def run(source: Path, core: int, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """One choice in a fresh process; its record."""
    command = [sys.executable, "-m", "leporid", "choose", str(source), "--core", str(core)]
    command += ["--budget", options.budget, "--metric", METRIC, "--device", options.device]
    begun, before = time.perf_counter(), _core_seconds()
    done = subprocess.run(
        [*command, "-o", str(folder)], capture_output=True, text=True, check=False
    )
    record: dict[str, Any] = {
        "asked": options.budget,
        "wall_seconds": time.perf_counter() - begun,
        "core_seconds": _core_seconds() - before,
        "threads": len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count(),
        "machine": machine(),
        "told": done.stderr.splitlines(),
    }
    journal = folder / "search" / "journal.jsonl"
    if journal.is_file():
        lines = journal.read_text(encoding="utf-8").splitlines()
        record["search"] = [json.loads(line) for line in lines]
    if done.returncode:
        return {**record, "error": done.stderr.strip()[-4000:]}
    return {**read_json(folder / "chosen.json"), **record}


def _core_seconds() -> float:
    """What processes begun here have computed, over all cores: a busy machine gives them less."""
    times = os.times()
    return times.children_user + times.children_system


def leaders() -> dict[str, tuple[float, float]]:
    """For each log, on test: the best of the leaderboard's short form, and tuned EASE."""
    logs = read_leaderboard(LEADERBOARD, ROOT / "results")
    found = {}
    for log, short in zip(logs, best_of_families(logs), strict=True):
        ease = log.row("ease", None)
        assert ease is not None
        found[log.name] = max(r[METRIC] for r in short["best"].values() if r), ease.mean(METRIC)
    return found


def row_of(record: dict[str, Any], best: float, ease: float) -> dict[str, Any]:
    """A line of the table."""
    name, wall = record["log"], record["wall_seconds"]
    if "error" in record:
        return {"log": name, "chosen": record["error"].splitlines()[-1], "seconds": round(wall, 1)}
    value = record["tested"][0][METRIC]
    return {
        "log": name,
        "chosen": record["winner"],
        f"{METRIC} on test": round(value, 4),
        "of the leaderboard's best": round(value / best, 3),
        "of tuned EASE": round(value / ease, 3),
        "candidates": len(record["table"]),
        "seconds": round(wall, 1),
        "core-seconds": round(record["core_seconds"], 1),
        "of the budget": round(wall / record["budget"], 3),
    }


def main() -> None:
    """The logs that are there, one after the other; or the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("LEPORID_DATA"))
    parser.add_argument("--logs", default=",".join(LOGS))
    parser.add_argument("--budget", default="5m")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=RECORDS / "choose")
    parser.add_argument("--keep", type=Path, help="Folder for the runs; else they are removed.")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    leading = leaders()
    for name in () if options.table or options.data is None else options.logs.split(","):
        found = sorted(Path(options.data).glob(f"{name}.*"))
        if not found:
            print(f"{name}: no {options.data / name}.*, left out", flush=True)
            continue
        with tempfile.TemporaryDirectory() as aside:
            folder = (options.keep or Path(aside)) / name
            record = {"log": name, **run(found[0], LOGS[name], options, folder)}
        # The printed commands name where this machine keeps the log and the run.
        text = json.dumps(record).replace(str(found[0]), found[0].name).replace(str(folder), name)
        record = json.loads(text)
        options.out.mkdir(parents=True, exist_ok=True)
        write_json(options.out / f"{name}.json", record)
        print(row_of(record, *leading[name]), flush=True)
    if options.table:
        records = [read_json(path) for path in sorted(options.out.glob("*.json"))]
        budgets = ", ".join(sorted({record["asked"] for record in records}))
        settings = {"budget": budgets, "metric": METRIC, "device": options.device}
        rows = [row_of(record, *leading[record["log"]]) for record in records]
        write_record("choose", rows, settings)


if __name__ == "__main__":
    main()
