"""The command line: argument parsing only, every command a thin call into the library."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Entry point of the `leporid` command."""
    from leporid.cli.app import run

    run()
