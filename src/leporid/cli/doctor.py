"""`leporid doctor`: what is installed, what the machine has, and whether the kernels work."""

from __future__ import annotations

import typer

from leporid.cli.options import Json
from leporid.cli.output import print_json, print_table


def doctor(json_output: Json = False) -> None:
    """Versions, devices, threads, caches, extras, and a small self-test of the kernels.

    Exit code 0 when every self-test passed; a missing extra is not a failure.
    """
    from leporid.diagnostics import examine

    report = examine()
    if json_output:
        print_json(report)
    else:
        for title in ("versions", "machine", "caches"):
            rows = [{"what": key, "value": str(value)} for key, value in report[title].items()]
            print_table(title, rows)
        extras = []
        for row in report["extras"]:
            name, missing = row["extra"], ", ".join(row["missing"])
            advice = f"missing {missing}: pip install 'leporid[{name}]'"
            extras.append({"extra": name, "state": advice if missing else "present"})
        print_table("extras", extras)
        tests = [
            {"self-test": row["name"], "result": "ok" if row["ok"] else f"FAILED: {row['detail']}"}
            for row in report["self_tests"]
        ]
        print_table("self-tests", tests)
    if not all(row["ok"] for row in report["self_tests"]):
        raise typer.Exit(1)
