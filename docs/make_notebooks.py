"""Run the notebooks of examples/ and store their outputs, without Jupyter.

python docs/make_notebooks.py [NAME ...]
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "examples"


def run(notebook: dict[str, Any]) -> None:
    """Run the code cells in order; each keeps what it printed and its last expression."""
    names: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        count += 1
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        printed = io.StringIO()
        value = None
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, f"cell {count}", "exec"), names)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), f"cell {count}", "eval"), names)
        cell["execution_count"] = count
        cell["outputs"] = list(_outputs(printed.getvalue(), value, count))


def _outputs(text: str, value: Any, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if text:
        found.append({"name": "stdout", "output_type": "stream", "text": text.splitlines(True)})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(True)}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_().splitlines(True)
        result = {"data": data, "execution_count": count, "metadata": {}}
        found.append({**result, "output_type": "execute_result"})
    return found


def main() -> None:
    """Run those that are named, or all."""
    os.environ["LEPORID_PROGRESS"] = "off"
    for path in sorted(FOLDER.glob("*.ipynb")):
        if sys.argv[1:] and path.stem not in sys.argv[1:]:
            continue
        notebook = json.loads(path.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as folder:
            before = Path.cwd()
            os.chdir(folder)
            try:
                run(notebook)
            finally:
                os.chdir(before)
        text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        path.write_text(text, encoding="utf-8")
        print(f"ran {path.name}")


if __name__ == "__main__":
    main()
