"""`python -m reproduction.audit`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from reproduction.audit.checks import Audit
from reproduction.audit.leaderboard import LeaderboardAudit
from reproduction.audit.paper import PaperAudit
from reproduction.audit.records import ROOT, Store
from reproduction.audit.results import ResultsAudit
from reproduction.audit.study import StudyAudit
from reproduction.audit.verdict import VerdictAudit

NOT_COVERED = (
    "tables of benchmarks/records on other pages (benchmarks, models, own-model, ...)",
    "numbers in sentences, except the remarks of verdict.md and the counts of README.md",
    "figures",
)


def audit_pages(docs: Path, readme: Path, results: Path) -> Audit:
    """Check all pages against the records in `results`."""
    audit, store = Audit(), Store(results)
    checks: dict[Path, Callable[[str], None]] = {
        docs / "verdict.md": VerdictAudit(audit, store).verdict,
        docs / "paper.md": PaperAudit(audit, store).paper,
        docs / "leaderboard.md": LeaderboardAudit(audit, store).leaderboard,
        docs / "results.md": ResultsAudit(audit, store).results,
        docs / "initialisation.md": StudyAudit(audit, store).initialisation,
        readme: ResultsAudit(audit, store).readme,
    }
    for path, check in checks.items():
        audit.page = path.name
        if path.is_file():
            check(path.read_text(encoding="utf-8"))
        else:
            audit.wrong.append(f"{path} is not there: run `python docs/make_pages.py`")
    return audit


def main() -> None:
    """Print what was checked; status 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    given = parser.parse_args()
    audit = audit_pages(given.docs, ROOT / "README.md", given.results)
    for page in audit.numbers:
        print(f"{page}: {audit.numbers[page]:,} numbers and {audit.words[page]:,} words checked")
    print(f"all: {audit.numbers.total():,} numbers and {audit.words.total():,} words checked")
    for one in [*audit.left, *NOT_COVERED]:
        print(f"not covered: {one}")
    for one in audit.wrong:
        print(f"wrong: {one}")
    sys.exit(bool(audit.wrong))


if __name__ == "__main__":
    main()
