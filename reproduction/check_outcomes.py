"""`python -m reproduction.check_outcomes`: files of outcomes per user are added or deleted only.

Git keeps every version of a parquet file whole, so each change makes every clone larger. What is
compared is the working tree with the last commit and with the commit it will be merged into: the
merge base with `origin/main`, or the first parent where there is none, or where HEAD is on it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_FILES = ":(glob)results/**/*.parquet"


def main() -> None:
    """Print the files that were modified, and fail if there are any."""
    changed = modified_outcomes(Path(__file__).parents[1])
    for path in changed:
        print(
            f"error: {path} was modified, and files of outcomes never change: restore it with "
            "`git checkout`, and let `python -m reproduction pack` write new runs to a new file",
            file=sys.stderr,
        )
    sys.exit(bool(changed))


def modified_outcomes(repository: Path) -> list[str]:
    """The files that git has in an earlier commit and that differ from it now, in order.

    Nothing is compared outside a clone, and in one that is too shallow to hold the other commit.
    """
    changed = set[str]()
    for commit in _compared_with(repository):
        wanted = ["--name-only", "-z", "--no-renames", "--diff-filter=MT"]
        for where in ((), ("--cached",)):
            names = _git(repository, "diff", *where, *wanted, commit, "--", _FILES) or ""
            changed |= set(filter(None, names.split("\0")))
    return sorted(changed)


def _compared_with(repository: Path) -> list[str]:
    head = _commit(repository, "HEAD")
    if head is None:
        return []
    base = _git(repository, "merge-base", "origin/main", "HEAD")
    base = base.strip() if base else head
    earlier = _commit(repository, "HEAD^1") if base == head else base
    return [head] if earlier is None else [head, earlier]


def _commit(repository: Path, name: str) -> str | None:
    """The hash of a commit; None where this clone does not hold it."""
    found = _git(repository, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    return found.strip() if found else None


def _git(repository: Path, *arguments: str) -> str | None:
    """What a command of git prints; None where it fails, or where there is no git."""
    command = ["git", "-C", str(repository), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


if __name__ == "__main__":
    main()
