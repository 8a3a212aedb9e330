"""Pages: templates with hostile values, figures that are equal text, tables of any rows."""

from __future__ import annotations

import re
from pathlib import Path

import jinja2
import pytest

from leporid.html import fill_template, new_figure, rows_html, to_svg


def test_values_are_escaped_and_missing_ones_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "package" / "templates").mkdir(parents=True)
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "templates" / "page.html").write_text("<h1>{{ title }}</h1>")
    monkeypatch.syspath_prepend(tmp_path)
    assert fill_template("package", "page.html", title="<b> & é") == "<h1>&lt;b&gt; &amp; é</h1>"
    with pytest.raises(jinja2.UndefinedError):
        fill_template("package", "page.html", heading="x")


def test_equal_figures_are_equal_text() -> None:
    pytest.importorskip("matplotlib")

    def drawn(last: float) -> str:
        figure, axes = new_figure(2, 1)
        axes.scatter([1, 2], [3, last])
        return to_svg(figure)

    assert drawn(4).startswith("<svg")
    # Nothing is black or white: a dark page shows it in the colour of its own text.
    assert not re.search("#000000|#ffffff|black|white", drawn(4))
    assert drawn(4).count("currentColor") > 5
    assert drawn(4) == drawn(4)
    assert drawn(4) != drawn(5)
    _, panels = new_figure(2, 1, columns=3)
    assert len(panels) == 3


def cells(table: str) -> list[list[str]]:
    """The text of every cell, row by row; the first row is the heading."""
    rows = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]


def test_rows_that_lack_a_column_keep_the_others_in_place() -> None:
    rows = [{"model": "bpr", "seconds": 2.0}, {"model": "dlr2", "quiet": 0.5, "seconds": 3.0}]
    assert cells(rows_html(rows, "two kinds of runs")) == [
        ["model", "seconds", "quiet"],
        ["bpr", "2.0", "-"],
        ["dlr2", "3.0", "0.5000"],
    ]


def test_numbers_have_as_many_digits_as_they_need() -> None:
    rows = [
        {"K": 500, "rate": 932.8979, "share": 0.25},
        {"K": 20_000, "rate": 1232.5, "share": 0.0},
    ]
    assert cells(rows_html(rows, "numbers"))[1:] == [
        ["500", "933", "0.2500"],
        ["20,000", "1,232", "0.0000"],
    ]
