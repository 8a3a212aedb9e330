"""The walk of `leporid train` through the code: files entered, and changes of package.

`python benchmarks/trace_train.py` trains TopPop and DLR2 for a few steps on a small synthetic log
and counts, over all calls of our functions, the files they lie in and how often a call lies in
another package than the call before. Import time is not counted.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import leporid
from leporid.cli.app import app

ROOT = Path(leporid.__file__).parent


class Trace:
    """Counts calls of functions below `ROOT`."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.changes, self._package = 0, ""

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


PREFIX = f"{ROOT}/"


def walk(arguments: list[str]) -> dict[str, int]:
    """Files and changes of package of one command; a first run imports and compiles."""
    trace = Trace()
    for profile in (None, trace):
        sys.setprofile(profile)
        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
            app(arguments)
        sys.setprofile(None)
    return {"files": len(trace.files), "changes of package": trace.changes}


def main() -> None:
    """Print the walks as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.csv"
        data = leporid.synthesize(80, 50, 1500, seed=1)
        rows = zip(data.user.tolist(), data.item.tolist(), range(len(data)), strict=True)
        log.write_text("user,item,time\n" + "".join(f"{u},{i},{t}\n" for u, i, t in rows))
        found = {}
        for model, more in (("toppop", []), ("dlr2", ["--steps", "4"])):
            command = ["train", str(log), "--model", model, "-o", f"{folder}/{model}", *more]
            found[model] = walk([*command, "--no-baselines"])
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
