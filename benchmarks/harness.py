"""What every benchmark shares: timing, the machine's description, the record and its table."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from leporid.foundation import write_json
from leporid.runs.meter import peak_memory_mb

__all__ = ["Journal", "machine", "markdown_table", "peak_memory_mb", "timed", "write_record"]

RECORDS = Path(__file__).parent / "records"
PACKAGES = ("numpy", "scipy", "numba", "torch", "pyarrow", "similaripy", "implicit", "scikit-learn")


def timed(function: Callable[[], Any], repeat: int = 1) -> tuple[float, Any]:
    """The best wall-clock seconds of `repeat` calls, and the last result."""
    best, result = float("inf"), None
    for _ in range(repeat):
        start = time.perf_counter()
        result = function()
        best = min(best, time.perf_counter() - start)
    return best, result


class Journal:
    """A file of finished rows, one line of JSON each, so that a stopped benchmark goes on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.touch()
        self.rows: list[dict[str, Any]] = [json.loads(row) for row in path.read_text().splitlines()]

    def has(self, **parts: object) -> bool:
        """Tell whether a row with these values is finished."""
        return any(parts.items() <= row.items() for row in self.rows)

    def add(self, row: dict[str, Any]) -> None:
        """Keep a finished row."""
        self.rows.append(row)
        with self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")


def machine() -> dict[str, Any]:
    """Processor, cores and versions."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {"processor": model, "cores": os.cpu_count(), "versions": versions}


def write_record(
    name: str,
    rows: Sequence[Mapping[str, Any]],
    settings: Mapping[str, Any],
    notes: Sequence[str] = (),
) -> None:
    """Write `records/<name>.json`."""
    record = {
        "benchmark": name,
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "settings": dict(settings),
        "rows": [dict(row) for row in rows],
        "notes": list(notes),
    }
    write_json(RECORDS / f"{name}.json", record)


def markdown_table(record: Mapping[str, Any]) -> str:
    """The rows of a record as a Markdown table, its notes below."""
    columns = list(dict.fromkeys(key for row in record["rows"] for key in row))
    rows = [[_cell(row.get(column, "")) for column in columns] for row in record["rows"]]
    lines = ["| " + " | ".join(cells) + " |" for cells in (columns, *rows)]
    lines.insert(1, "|" + "---|" * len(columns))
    return "\n".join([*lines, "", *(f"- {note}" for note in record.get("notes", ()))])


def _cell(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|")
