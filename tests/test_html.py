"""Pages: templates with hostile values, charts and bars, tables of any rows."""

from __future__ import annotations

import re
from pathlib import Path

import jinja2
import pytest

from leporid.foundation import Series, bars_html, chart_html, fill_template, rows_html


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


def ticks(chart: str) -> tuple[list[str], list[str]]:
    """The labels of the two axes, as they are read."""
    across = re.findall(r"text-anchor='middle'>([^<]*)<", chart)
    return across, re.findall(r"<text x='-8'[^>]*>([^<]*)<", chart)


def test_a_line_goes_through_its_points_between_round_numbers() -> None:
    chart = chart_html([Series("a", [(0, 0.1), (300, 0.3), (400, 0.2)], 2)], "steps", "Quality")
    assert ticks(chart) == (
        ["0", "100", "200", "300", "400"],
        ["0.1", "0.15", "0.2", "0.25", "0.3"],
    )
    [line] = re.findall("points='([^']*)'", chart)
    assert line.split() == ["0.0,100.0", "75.0,0.0", "100.0,50.0"]
    assert "class='keys'" not in chart  # one line needs no key
    assert chart_html([Series("a", [], 2)], "steps", "Quality") == ""


def test_points_have_names_and_a_logarithmic_axis_powers_of_ten() -> None:
    points = [(0.1, 5.0), (10.0, 5.0)]
    chart = chart_html([Series("a", points, 1, ["<x>", "y"])], "ms", "&", log=True, named=["<x>"])
    assert ticks(chart)[0] == ["0.1", "1", "10"]
    assert re.findall("cx='([^']*)'", chart) == ["0.0%", "100.0%"]
    assert chart.count("&lt;x&gt;") == 2  # beside the point and as its title
    assert "polyline" not in chart


def test_lines_are_named_at_their_ends() -> None:
    low = Series("low", [(0, 0.4), (4, 0.1)], 1)
    high = Series("high", [(0, 0.1), (4, 0.3)], 2)
    chart = chart_html([low, high], "steps", "Quality")
    names = re.findall(r"class='name' x='([^']*)' y='([^']*)'.*?dy='([^']*)em'[^>]*>(\w+)<", chart)
    places = {name: (x, float(y.rstrip("%"))) for x, y, _, name in names}
    assert {x for x, _ in places.values()} == {"100.0%"}
    assert places["high"][1] < places["low"][1]
    above = {name for *_, dy, name in names if float(dy) < 0}
    assert above == {"high"}
    assert "class='name'" not in chart_html([low], "steps", "Quality")  # the caption names it


@pytest.mark.parametrize(("x", "anchor"), [(0.5, "start"), (0.12, "end")])
def test_a_name_covers_no_other_point(x: float, anchor: str) -> None:
    points = [(0.1, 1.0), (x, 1.0), (1.0, 2.0)]
    chart = chart_html(
        [Series("a", points, 1, ["here", "b", "c"])], "ms", "Q", log=True, named=["here"]
    )
    assert re.findall("class='name'.*?text-anchor='([^']*)'", chart) == [anchor]


def test_bars_are_shares_of_the_width() -> None:
    bars = bars_html({"dlr2": 0.69, "TopPop": 0.53}, "Of 100 users", percent=True)
    assert re.findall(r"class='f\d'.*?width='([^']*)%'", bars) == ["69.0", "53.0"]
    assert "aria-label='Of 100 users: dlr2 69%, TopPop 53%'" in bars
    bars = bars_html({"a": 0.1, "b": 0.2}, "NDCG@10", {"b": (0.1, 0.4)})
    assert re.findall(r"class='f\d'.*?width='([^']*)%'", bars) == ["50.0", "25.0"]
    assert "x1='25.0%' x2='100.0%'" in bars


def test_a_table_without_rows_is_nothing() -> None:
    assert rows_html([], "nothing") == ""


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
