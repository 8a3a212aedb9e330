"""`python -m leporid`."""

from __future__ import annotations

from leporid.cli import main

if __name__ == "__main__":
    main()
