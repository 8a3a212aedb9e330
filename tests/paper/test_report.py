"""Tables of a report: every value under its own heading, numbers as people write them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from leporid.paper import rows_html
from leporid.paper.outputs import write_outputs
from leporid.paper.tables import NOT_FETCHED

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


@pytest.mark.parametrize("dataset", ["ml-1m-r3", "anime-5k"])
def test_the_committed_records_leave_no_cell_empty(dataset: str, tmp_path: Path) -> None:
    tables = ["table3", "table4", "table5", "table6", "table7"]
    names = ["table2", *tables, "figure4a", "alpha", "neighbours", "timecost"]
    report = write_outputs(names, dataset, ROOT / "results", tmp_path, skip_missing=True)
    for name in tables:
        text = (tmp_path / f"{name}.md").read_text("utf-8")
        assert "not run" not in text, name
        assert "paper" in text or name == "table6", name
    rows = json.loads((tmp_path / "table2.json").read_text("utf-8"))
    assert all(isinstance(r["ours"], int | float) for r in rows if r["dataset"] == dataset)
    assert {r["ours"] for r in rows if r["dataset"] == "steam"} == {NOT_FETCHED}
    assert len(json.loads((tmp_path / "timecost.json").read_text("utf-8"))) == 3
    for picture in ("figure4a.png", "alpha.png", "neighbours.png"):
        assert (tmp_path / picture).is_file()
    assert "Not run yet" not in report.read_text("utf-8")
