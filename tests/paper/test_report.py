"""Tables of a report: every value under its own heading, numbers as people write them."""

from __future__ import annotations

import re
from pathlib import Path

from leporid.paper import rows_html
from leporid.paper.outputs import write_outputs

ROOT = Path(__file__).parents[2]


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


def test_a_number_of_neighbours_is_a_whole_number(tmp_path: Path) -> None:
    page = write_outputs(["neighbours"], "ml-1m-r3", ROOT / "results", tmp_path)
    table = page.read_text(encoding="utf-8").partition("K on ml-1m-r3")[2].partition("</table>")[0]
    assert [row[0] for row in cells(table)] == ["K", "100", "200", "500", "1000", "2000"]
