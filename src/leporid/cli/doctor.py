"""`leporid doctor`: what is installed, what the machine has, and whether the kernels work."""

from __future__ import annotations

from typing import Any

import typer

from leporid.cli.options import Json
from leporid.cli.output import print_json, print_table

__all__ = ["doctor"]


def doctor(json_output: Json = False) -> None:
    """Versions, devices, threads, caches, extras, and a small self-test of the kernels.

    Exit code 0 when every self-test passed; a missing extra is not a failure.
    """
    from leporid.diagnostics.doctor import examine

    report = examine()
    if json_output:
        print_json(report)
    else:
        for title in ("versions", "machine", "caches"):
            rows = [{"what": key, "value": str(value)} for key, value in report[title].items()]
            print_table(title, rows)
        extras = [{"extra": row["extra"], "state": _state(row)} for row in report["extras"]]
        print_table("extras", extras)
        tests = [
            {"self-test": row["name"], "result": "ok" if row["ok"] else f"FAILED: {row['detail']}"}
            for row in report["self_tests"]
        ]
        print_table("self-tests", tests)
    if not all(row["ok"] for row in report["self_tests"]):
        raise typer.Exit(1)


def _state(row: dict[str, Any]) -> str:
    if not row["missing"]:
        return "present"
    return f"missing {', '.join(row['missing'])}: pip install 'leporid[{row['extra']}]'"
