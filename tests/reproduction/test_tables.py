"""Tables and their renderings, from records made by hand."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import pytest

from leporid.errors import DataError, UnknownNameError
from reproduction.render import render
from reproduction.store import PackedResults
from reproduction.tables import build_table, paper_dataset, paper_rows
from tests.experiments.records import record


def test_seeds_are_averaged_and_the_printed_value_stands_beside() -> None:
    runs = [record("dlr2", "leporid", 1, 0.70), record("dlr2", "leporid", 2, 0.72)]
    table = build_table("table3", runs, "ml-1m-r3")
    row = next(row for row in table.rows if row.key == ("dlr2", "leporid"))
    value = row.values["HR@10"]
    assert value.ours == pytest.approx(0.71)
    assert value.deviation == pytest.approx(0.0141421, abs=1e-6)
    assert value.seeds == 2
    assert value.paper == 0.7026
    assert value.difference == pytest.approx(0.71 - 0.7026)


def test_rows_not_run_stay_empty_and_are_named() -> None:
    table = build_table("table3", [record("dlr2", "le", 1, 0.6)], "ml-1m-r3")
    assert len(table.rows) == 40
    empty = next(row for row in table.rows if row.key == ("ncf", "svd"))
    assert empty.values["HR@10"].ours is None
    assert any("ncf svd" in note for note in table.notes)
    assert any("not the same data" in note for note in table.notes)


def test_tail_table_reads_tail_metrics() -> None:
    table = build_table("table5", [record("dlr2", "svd", 1, 0.4)], "ml-1m-r3")
    row = next(row for row in table.rows if row.key == ("dlr2", "svd"))
    assert row.values["HR@10"].ours == pytest.approx(0.2)
    assert row.values["HR@10"].paper == 0.4166


def test_variants_name_the_rows_of_ablation_tables() -> None:
    run = record("dlr2", "leporid", 1, 0.5, cell={"variant": "revnet"})
    table = build_table("table7", [run], "ml-1m-r3")
    row = next(row for row in table.rows if row.key == ("revnet",))
    assert row.values["F1@10"].paper == 0.1162


def test_a_variant_does_not_enter_the_mean_of_plain_runs() -> None:
    runs = [
        record("dlr2", "random", 1, 0.5),
        record("dlr2", "random", 1, 0.1, cell={"variant": "random-0.3"}),
    ]
    table = build_table("table3", runs, "ml-1m-r3")
    row = next(row for row in table.rows if row.key == ("dlr2", "random"))
    assert row.values["HR@10"].ours == pytest.approx(0.5)


def test_an_order_that_differs_from_the_papers_is_said() -> None:
    runs = [record("dlr2", "leporid", 1, 0.70), record("dlr2", "le", 1, 0.60)]
    assert not any("Against" in n for n in build_table("table3", runs, "ml-1m-r3").notes)
    runs.append(record("dlr2", "svd", 1, 0.75))
    said = [n for n in build_table("table3", runs, "ml-1m-r3").notes if "Against" in n]
    assert said == [
        "Against the paper: dlr2 reaches a higher HR@10 here from svd (0.7500) than from "
        "leporid (0.7000)."
    ]


def test_markdown_marks_the_best_of_each_model() -> None:
    runs = [
        record("dlr2", "random", 1, 0.5),
        record("dlr2", "leporid", 1, 0.7),
        record("ncf", "random", 1, 0.2),
        record("ncf", "leporid", 1, 0.4),
    ]
    text = render(build_table("table3", runs, "ml-1m-r3"), "markdown")
    assert "**0.7000**" in text
    assert "**0.4000**" in text
    assert "_0.5000_" in text


@pytest.mark.parametrize("form", ["markdown", "csv", "latex", "html"])
def test_every_row_says_the_history_it_was_given(form: str) -> None:
    runs = [
        record("itemknn", None, 1, 0.5),
        record("ease", None, 1, 0.6, seen="train and validation"),
    ]
    text = render(build_table("table4", runs, "ml-1m-r3"), form)
    assert "history" in text
    plain = " ".join(re.sub(r"<[^>]*>|[|&,]", " ", text).split())
    assert "itemknn - train only" in plain
    assert "ease - train and validation" in plain
    assert "slim - -" in plain  # not run here


def test_equal_values_have_the_same_mark() -> None:
    values = {"random": 0.3, "svd": 0.1 + 0.2, "le": 0.2, "bpr": 0.1}
    runs = [record("dlr2", init, 1, value) for init, value in values.items()]
    text = render(build_table("table3", runs, "ml-1m-r3"), "markdown")
    marked = {line.split(" | ")[1]: line for line in text.splitlines() if "| dlr2 |" in line}
    assert "| **0.3000** |" in marked["random"]
    assert "| **0.3000** |" in marked["svd"]
    assert "| _0.2000_ |" in marked["le"]
    assert "| 0.1000 |" in marked["bpr"]


def test_latex_is_booktabs_with_bold_and_underline() -> None:
    runs = [record("dlr2", "random", 1, 0.5), record("dlr2", "graph_bert", 1, 0.7)]
    text = render(build_table("table5", runs, "ml-1m-r3"), "latex")
    assert r"\toprule" in text
    assert r"\textbf{0.3500}" in text
    assert r"\underline{0.2500}" in text
    assert r"graph\_bert" in text


def test_csv_has_one_line_per_value() -> None:
    table = build_table("table3", [record("dlr2", "leporid", 1, 0.7)], "ml-1m-r3")
    rows = list(csv.DictReader(io.StringIO(render(table, "csv"))))
    assert len(rows) == 40 * 4
    found = next(r for r in rows if (r["model"], r["init"], r["metric"]) == _KEY)
    assert (float(found["ours"]), float(found["paper"])) == (0.7, 0.7026)


_KEY = ("dlr2", "leporid", "HR@10")


def test_unknown_names_are_answered_kindly() -> None:
    with pytest.raises(UnknownNameError, match="markdown"):
        render(build_table("table5", [], "ml-1m"), "markdwon")
    with pytest.raises(DataError, match="table3"):
        build_table("table2", [], "ml-1m")


def test_paper_values_are_complete() -> None:
    counts = {"table2": 3, "table3": 120, "table4": 36, "table5": 12, "table6": 4, "table7": 12}
    for name, count in counts.items():
        rows = [row for data in ("ml-1m", "steam", "anime") for row in paper_rows(name, data)]
        assert len(rows) == count
    with pytest.raises(UnknownNameError, match="table2"):
        paper_rows("tabel2", "ml-1m")
    assert paper_dataset("ml-1m-r3") == "ml-1m"
    assert paper_dataset("ml-100k") is None


def test_records_are_read_back_and_failures_left_out(tmp_path: Any) -> None:
    first = record("dlr2", "leporid", 1, 0.7)
    path = PackedResults(tmp_path).add(first)
    path.with_suffix(".error.json").write_text("{}")
    assert PackedResults(tmp_path).records("ml-1m-r3", ["initialisers"]) == [first]
