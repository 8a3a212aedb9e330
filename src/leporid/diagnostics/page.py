"""One self-contained HTML page: numbers, tables and inline pictures, nothing loaded from afar."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["render_page"]

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; }
h1, h2 { font-weight: 600; } h2 { margin-top: 2.2rem; border-bottom: 1px solid #ddd; }
table { border-collapse: collapse; margin: 0.8rem 0; }
th, td { padding: 0.2rem 0.8rem; border-bottom: 1px solid #eee; text-align: left; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.pictures { display: flex; flex-wrap: wrap; gap: 1rem; } .pictures svg { max-width: 31rem; }
"""


def render_page(
    title: str,
    sections: Sequence[tuple[str, Sequence[Sequence[Mapping[str, Any]]], Sequence[str]]],
) -> str:
    """HTML with one section each of (heading, tables, SVG pictures)."""
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{html.escape(title)}</h1>",
    ]
    for heading, tables, pictures in sections:
        parts.append(f"<h2>{html.escape(heading)}</h2>")
        parts += [_table(table) for table in tables if table]
        if pictures:
            parts.append(f"<div class='pictures'>{''.join(pictures)}</div>")
    parts.append("</body></html>\n")
    return "\n".join(parts)


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    head = "".join(f"<th>{html.escape(str(key))}</th>" for key in rows[0])
    body = "".join(f"<tr>{''.join(_cell(v) for v in row.values())}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"<td>{html.escape('' if value is None else str(value))}</td>"
    text = f"{value:.4g}" if isinstance(value, float) else f"{value:,}"
    return f"<td class='number'>{text}</td>"
