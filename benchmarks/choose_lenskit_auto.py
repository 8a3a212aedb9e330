"""LensKit-Auto on the same logs: same training and validation parts, same time, same test.

python -m benchmarks.choose_lenskit_auto DATA --python ENV/bin/python [--only lastfm] [--budget 5m]
                                         [--records FOLDER] [--table]

ENV has LensKit-Auto (pins in peers/lenskit-auto-requirements.txt). Its search gets all of the time;
the fit on train and validation and the lists come after it. Those lists are judged by our
evaluator. `--table` makes records/choose_lenskit_auto.json of these records and those of
`choose_logs`.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.choose_logs import LOGS, METRIC
from benchmarks.harness import RECORDS, machine, write_record
from leporid.data import Split, load, split_by
from leporid.evaluation import evaluate
from leporid.foundation import read_json, write_json
from leporid.ranking import TopK
from leporid.selection import parse_duration

SCRIPT = Path(__file__).parent / "peers" / "lenskit_auto_search.py"


def run(split: Split, python: str, seconds: float, folder: Path) -> dict[str, Any]:
    """Its choice on one split, and what that is worth on test."""
    for name, part in (("train", split.train), ("valid", split.valid)):
        rows = np.column_stack([part.user, part.item, np.ones(len(part), np.int32)])
        header = "user,item,rating"
        np.savetxt(folder / f"{name}.csv", rows, "%d", ",", header=header, comments="")
    users = np.unique(split.test.user)
    np.save(folder / "users.npy", users)
    begun = time.perf_counter()
    command = [python, str(SCRIPT), str(folder), str(round(seconds)), "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    record: dict[str, Any] = {"wall_seconds": time.perf_counter() - begun, "machine": machine()}
    if done.returncode:
        return {**record, "error": done.stderr.strip()[-4000:]}
    top = np.full((split.n_users, 10), -1, np.int32)
    top[users] = np.load(folder / "top.npy")
    table = evaluate(TopK(top, np.zeros(top.shape, np.float32)), split, at=(10,))
    return {**record, **read_json(folder / "chosen.json"), "test": table.mean()}


def main() -> None:
    """The logs that are there, one after the other; then the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--python", help="Interpreter of the environment with LensKit-Auto.")
    parser.add_argument("--only", default=",".join(LOGS))
    parser.add_argument("--budget", default="5m")
    parser.add_argument("--records", type=Path, default=RECORDS / "choose_lenskit_auto")
    parser.add_argument("--ours", type=Path, default=RECORDS / "choose")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    for name in options.only.split(",") if options.data else ():
        if not (found := sorted(options.data.glob(f"{name}.*"))):
            print(f"{name}: no {options.data / name}.*, left out", flush=True)
            continue
        log, core = load(found[0]), LOGS[name]
        split = split_by(log.core(core) if core else log, "temporal")
        with tempfile.TemporaryDirectory() as folder:
            about = {"log": name, "asked": options.budget, "data": split.digest}
            seconds = parse_duration(options.budget)
            record = about | run(split, options.python, seconds, Path(folder))
        write_json(options.records / f"{name}.json", record)
        print({k: v for k, v in record.items() if k != "machine"}, flush=True)
    if options.table:
        rows = []
        for path in sorted(options.records.glob("*.json")):
            theirs, our_file = read_json(path), options.ours / path.name
            ours = read_json(our_file) if our_file.is_file() else {}
            rows.append(
                {
                    "log": theirs["log"],
                    "LensKit-Auto": str(theirs.get("chosen", {}).get("algo", "failed")),
                    f"its {METRIC}": round(theirs.get("test", {}).get(METRIC, float("nan")), 4),
                    "its seconds": round(theirs["wall_seconds"], 1),
                    "leporid choose": ours.get("winner", "no record"),
                    f"our {METRIC}": round(ours["tested"][0][METRIC], 4) if "tested" in ours else 0,
                    "our seconds": round(ours.get("wall_seconds", 0.0), 1),
                }
            )
        write_record("choose_lenskit_auto", rows, {"budget": options.budget, "metric": METRIC})


if __name__ == "__main__":
    main()
