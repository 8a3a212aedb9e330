"""`leporid doctor`: versions, devices, threads, extras, and a self-test."""

import typer

from leporid.cli.options import Json
from leporid.cli.printing import Part, show
from leporid.errors import install_command


def doctor(json_output: Json = False) -> None:
    """Versions, devices, threads, extras, and a small self-test of the kernels.

    Exit code 0 when every self-test passed; a missing extra is not a failure.
    """
    from leporid.diagnostics import examine

    report = examine()
    parts: list[Part] = []
    for title in ("versions", "machine"):
        facts = report[title]
        rows = [{"what": key, "value": str(value)} for key, value in facts.items()]
        parts.append((title, rows))
    for extra in report["extras"]:
        state = "present"
        if extra["missing"]:
            missing = ", ".join(extra["missing"])
            state = f"missing {missing}: {install_command(extra['extra'])}"
        parts.append(f"extra {extra['extra']}: {state}")
    for test in report["self_tests"]:
        result = "ok" if test["ok"] else f"FAILED: {test['detail']}"
        parts.append(f"self-test {test['name']}: {result}")
    show(json_output, report, *parts)
    if not all(test["ok"] for test in report["self_tests"]):
        raise typer.Exit(1)
