"""Record as text what `leporid train` prints, each line with the second it came in.

    python -m benchmarks.record_train DATA OUTPUT [--source FOLDER] [--interrupt 45] [--note TEXT]

The first command is that of a new user: nothing is compiled or cached yet. Ctrl-C comes 45 seconds
after training begins; the second command goes on with `--resume` to the end. FOLDER is the `src` of
another version.
"""

from __future__ import annotations

import argparse
import datetime
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.harness import machine

ROOT = Path(__file__).parents[1]


def recorded(command: list[str], folder: Path, interrupt: float | None) -> list[str]:
    """Run a command in a folder; return its lines, with Ctrl-C so long after training begins."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder / "src"),
        "PYTHONUNBUFFERED": "1",
        "NUMBA_CACHE_DIR": str(folder / "numba"),
        "LEPORID_CACHE": str(folder / "cache"),
        "LEPORID_PROGRESS": "",
        "COLUMNS": "100",
    }
    lines = [f"$ leporid {' '.join(command)}"]
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "leporid", *command],
        cwd=folder / "work",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    timer = None

    def press() -> None:
        lines.append(f"{time.perf_counter() - began:7.1f} s  ^C")
        process.send_signal(signal.SIGINT)

    assert process.stdout is not None
    for line in process.stdout:
        lines.append(f"{time.perf_counter() - began:7.1f} s  {line.rstrip()}".rstrip())
        print(lines[-1], flush=True)
        if interrupt is not None and timer is None and line.startswith("training"):
            timer = threading.Timer(interrupt, press)
            timer.start()
    code = process.wait()
    if timer is not None:
        timer.cancel()
    return [*lines, f"{time.perf_counter() - began:7.1f} s  (exit code {code})", ""]


def main() -> None:
    """Write the recording."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--source", type=Path, default=ROOT / "src")
    parser.add_argument("--interrupt", type=float, default=45.0)
    parser.add_argument("--note", default="")
    arguments = parser.parse_args()
    here = machine()
    commit = subprocess.run(
        ["git", "describe", "--always"],
        cwd=arguments.source,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "work").mkdir()
        (folder / "work" / arguments.data.name).symlink_to(arguments.data.resolve())
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(arguments.source, folder / "src", ignore=ignored)
        compiling = [sys.executable, "-m", "compileall", "-q", str(folder / "src")]
        subprocess.run(compiling, check=True)  # as pip does
        command = ["train", arguments.data.name, "-o", "run"]
        lines = recorded(command, folder, arguments.interrupt)
        lines += recorded([*command, "--resume"], folder, None)
    head = [
        f"# version {commit}, {datetime.date.today()}, {here['processor']}, {here['cores']} cores",
        "# the first command is the first one ever: nothing is compiled or cached",
    ]
    if arguments.note:
        head.append(f"# {arguments.note}")
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text("\n".join([*head, "", *lines]), encoding="utf-8")


if __name__ == "__main__":
    main()
