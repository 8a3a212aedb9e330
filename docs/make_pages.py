"""Write docs/benchmarks.md from benchmarks/records/*.json: no number on it was typed by hand.

python docs/make_pages.py [--output FILE]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from leporid.artifacts import atomic_path, read_json

ROOT = Path(__file__).resolve().parents[1]
HEAD = """# Benchmarks

Speed against peers and against the obvious implementation, measured in one run on one machine, so
that the ratio carries over where seconds do not. `make bench` measures them again; this page is
written from the records in `benchmarks/records`.
"""


def page(records: list[dict[str, Any]]) -> str:
    """The whole page as Markdown."""
    return "\n".join([HEAD, *(_section(record) for record in records)])


def _section(record: dict[str, Any]) -> str:
    machine, rows = record["machine"], record["rows"]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [f"## {record['benchmark']}", ""]
    lines += [f"{machine['processor']}, {machine['cores']} cores, {record['date']}.", ""]
    settings = ", ".join(f"{key} {value}" for key, value in record["settings"].items())
    lines += [f"Settings: {settings}.", ""] if settings else []
    lines += ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        lines.append("| " + " | ".join(_cell(row.get(column, "")) for column in columns) + " |")
    lines += ["", *(f"- {note}" for note in record.get("notes", ())), ""]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|")


def main() -> None:
    """Read, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "benchmarks.md")
    target = parser.parse_args().output
    records = [read_json(path) for path in sorted((ROOT / "benchmarks/records").glob("*.json"))]
    with atomic_path(target) as path:
        path.write_text(page(records), encoding="utf-8")
    print(f"wrote {target}: {len(records)} records")


if __name__ == "__main__":
    main()
