"""The walk of `leporid train` through the code: files entered, and changes of package.

    python benchmarks/trace_train.py [--old FOLDER]

Trains TopPop and DLR2 for a few steps on a small synthetic log and counts, over all calls of our
functions, the files they lie in and how often a call lies in another package than the call before.
That number grows with every batch; the walk of a reader, who reads a function once, changes package
only where a function is entered for the first time. Import time is not counted, and initial
embeddings come from the cache. With a checkout of another version both are traced, each in a
process of its own, and `records/trace_train.json` is written.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import leporid
from leporid._version import __version__
from leporid.cli.app import app

ROOT = Path(leporid.__file__).parent
PREFIX = f"{ROOT}/"
MODELS: dict[str, list[str]] = {"toppop": [], "dlr2": ["--steps", "4"]}


class Trace:
    """Counts calls of functions below `ROOT`."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.functions: set[Any] = set()
        self.changes, self._package = 0, ""
        self.first_changes, self._first_package = 0, ""

    def __call__(self, frame: Any, event: str, _: Any) -> None:
        """What `sys.setprofile` calls."""
        code = frame.f_code
        if event != "call" or code.co_name == "<module>" or not code.co_filename.startswith(PREFIX):
            return
        path = Path(code.co_filename).relative_to(ROOT)
        self.files.add(str(path))
        package = path.parts[0]
        self.changes += package != self._package
        self._package = package
        if code.co_name.startswith("<") or code in self.functions:  # a lambda is part of a function
            return
        self.functions.add(code)
        self.first_changes += package != self._first_package
        self._first_package = package


def walk(arguments: list[str], folder: Path) -> dict[str, int]:
    """Files and changes of package of one command; a first run imports and compiles."""
    trace = Trace()
    for name, profile in (("first", None), ("traced", trace)):
        sys.setprofile(profile)
        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
            app([*arguments, "-o", str(folder / name)])
        sys.setprofile(None)
    return {
        "files": len(trace.files),
        "functions": len(trace.functions),
        "changes of package": trace.changes,
        "changes of package at first entry": trace.first_changes,
    }


def walks() -> list[dict[str, Any]]:
    """The walk of each model with the version that is imported."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = folder / "log.csv"
        data = leporid.synthesize(80, 50, 1500, seed=1)
        rows = zip(data.user.tolist(), data.item.tolist(), range(len(data)), strict=True)
        log.write_text("user,item,time\n" + "".join(f"{u},{i},{t}\n" for u, i, t in rows))
        found: list[dict[str, Any]] = []
        for model, more in MODELS.items():
            command = ["train", str(log), "--model", model, *more, "--no-baselines"]
            about = {"version": __version__, "model": model}
            found.append(about | walk(command, folder / model))
    return found


def main() -> None:
    """Print the walks as JSON; with another version, write the record of both."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--old", type=Path, help="a checkout of another version")
    old = parser.parse_args().old
    if old is None:
        print(json.dumps(walks(), indent=1))
        return
    here = Path(__file__).parents[1]
    rows: list[dict[str, Any]] = []
    for checkout in (old, here):
        environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
        command = [sys.executable, __file__]
        said = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        rows += json.loads(said.stdout)
    sys.path.insert(0, str(here))
    from benchmarks.harness import write_record

    traced = "leporid train LOG --no-baselines, DLR2 with --steps 4"
    write_record("trace_train", rows, {"command": traced})


if __name__ == "__main__":
    main()
