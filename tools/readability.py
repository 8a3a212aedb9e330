"""Is the library still as readable as it was? Counts what slows a reader down, for `make lint`.

    python -m tools.readability            # compare with tools/readability.json
    python -m tools.readability --update   # note lower counts; higher ones are refused

Every count of `tools/readability.json` is a limit: a change may lower it, not raise it. Tokens
measure size, so that breaking a line costs nothing.
"""

from __future__ import annotations

import argparse
import ast
import collections
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "leporid"
LIMITS = Path(__file__).with_name("readability.json")
SLACK = {"tokens": 1.02, "tokens per code line": 1.005}
"""Factors by which a count may exceed its limit: new features need code."""
LEANING = re.compile(r"(Of|The same|As|Those|Whose|Its|Their|And|Or)\b")
"""How a docstring begins that only makes sense after the one above it."""
NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.ENCODING,
}


def docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield every text that stands alone as a statement."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Expr):
            continue
        value = node.value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value


def called_name(call: ast.Call) -> str:
    """Return the name of a called function, or an empty text."""
    return call.func.id if isinstance(call.func, ast.Name) else ""


def count_file(text: str) -> collections.Counter[str]:
    """Count what slows a reader down in one file."""
    counts: collections.Counter[str] = collections.Counter()
    tree = ast.parse(text)
    doc_lines: set[int] = set()
    for doc in docstrings(tree):
        doc_lines.update(range(doc.lineno, (doc.end_lineno or doc.lineno) + 1))
        counts["docstrings that lean"] += bool(LEANING.match(str(doc.value).strip()))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "Any":
            counts["Any"] += 1
        if isinstance(node, ast.Call):
            name = called_name(node)
            counts["cast"] += name == "cast"
            counts["getattr, hasattr"] += name in ("getattr", "hasattr")
            counts["calls with **"] += any(word.arg is None for word in node.keywords)
    counts["dict[str, Any]"] += text.count("dict[str, Any]")
    counts["fmt: skip"] += text.count("# fmt: skip") + text.count("# fmt: off")
    code_lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_doc = token.type == tokenize.STRING and token.start[0] in doc_lines
        if token.type in NOT_CODE or is_doc:
            continue
        counts["tokens"] += 1
        code_lines.update(range(token.start[0], token.end[0] + 1))
    counts["code lines"] = len(code_lines)
    return counts


def repeated_classes(files: list[Path]) -> int:
    """Count the public names that several classes of the library share."""
    homes: dict[str, set[Path]] = collections.defaultdict(set)
    for path in files:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].add(path)
    return sum(len(paths) > 1 for paths in homes.values())


def measure(source: Path = SOURCE) -> dict[str, float]:
    """Count over all files of a package."""
    files = sorted(source.rglob("*.py"))
    total: collections.Counter[str] = collections.Counter()
    for path in files:
        total.update(count_file(path.read_text(encoding="utf-8")))
    code_lines = total.pop("code lines")
    return {
        **dict(total),
        "class names used twice": repeated_classes(files),
        "tokens per code line": round(total["tokens"] / code_lines, 2),
    }


def exceeded(counts: dict[str, float], limits: dict[str, float]) -> list[str]:
    """Return a sentence for each count above its limit."""
    return [
        f"{name}: {counts.get(name, 0):,} are more than {limit:,}"
        for name, limit in limits.items()
        if counts.get(name, 0) > limit * SLACK.get(name, 1)
    ]


def main() -> int:
    """Print the counts; return 1 if one of them exceeds its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true", help="note lower counts as limits")
    is_update = parser.parse_args().update
    counts = measure()
    limits = json.loads(LIMITS.read_text(encoding="utf-8")) if LIMITS.is_file() else {}
    for name, value in counts.items():
        print(f"{value:>12,} {name}")
    worse = exceeded(counts, limits)
    if worse:
        print("harder to read than before: " + "; ".join(worse), file=sys.stderr)
        return 1
    if is_update:
        lower = {name: min(value, limits.get(name, value)) for name, value in counts.items()}
        LIMITS.write_text(json.dumps(lower, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
