"""`python -m benchmarks [name ...]`: run the benchmarks named, or all that take minutes."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

LONG = ("scale", "serve_large", "ten_million", "two_tower")
"""Take half an hour, need a folder of logs or an idle machine: only when named."""


def main() -> None:
    """Each `bench_<name>.py` has a function `run()` that writes its own record."""
    known = sorted(p.stem.removeprefix("bench_") for p in Path(__file__).parent.glob("bench_*.py"))
    for name in sys.argv[1:] or [name for name in known if name not in LONG]:
        if name not in known:
            raise SystemExit(f"unknown benchmark {name!r}: choose from {', '.join(known)}")
        print(f"== {name}", flush=True)
        importlib.import_module(f"benchmarks.bench_{name}").run()


if __name__ == "__main__":
    main()
