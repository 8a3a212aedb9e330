"""`leporid doctor`: what is installed, what the machine has, and whether the kernels work."""

from __future__ import annotations

import typer

from leporid.cli.output import JsonOption, print_json, print_table

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("doctor")(doctor)


def doctor(json_output: JsonOption = False) -> None:
    """Versions, devices, threads, caches, extras, and a small self-test of the kernels.

    Exit code 0 when every self-test passed; a missing extra is not a failure.
    """
    from leporid.diagnostics.doctor import examine

    found = examine()
    if json_output:
        print_json(found)
    else:
        for title in ("versions", "machine", "caches"):
            rows = [{"what": key, "value": str(value)} for key, value in found[title].items()]
            print_table(title, rows)
        extras = [{"extra": row["extra"], "state": _state(row)} for row in found["extras"]]
        print_table("extras", extras)
        tests = [
            {"self-test": row["name"], "result": "ok" if row["ok"] else f"FAILED: {row['detail']}"}
            for row in found["self_tests"]
        ]
        print_table("self-tests", tests)
    if not all(row["ok"] for row in found["self_tests"]):
        raise typer.Exit(1)


def _state(row: dict[str, object]) -> str:
    missing = row["missing"]
    if not missing:
        return "present"
    assert isinstance(missing, list)
    return f"missing {', '.join(missing)}: pip install 'leporid[{row['extra']}]'"
