"""The report: made of the committed records, and of runs of a toy grid."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import leporid
from leporid.data import write_log
from leporid.errors import DataError
from leporid.runs import ExperimentSpec, run_grid
from reproduction.figures import new_figure, to_svg
from reproduction.outputs import write_outputs
from reproduction.tables import NOT_FETCHED, build_table
from tests.test_html import cells

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("data") / "toy.parquet"
    write_log(leporid.synthesize(users=60, items=40, interactions=1500, seed=3), path)
    return str(path)


def spec(log: str, name: str) -> ExperimentSpec:
    values = {"name": name, "dataset": "toy", "source": log, "core": 2, "seeds": [1]}
    return ExperimentSpec.from_dict({**values, "models": ["toppop", "itemknn"]})


def test_a_number_of_neighbours_is_a_whole_number(tmp_path: Path) -> None:
    page = write_outputs(["neighbours"], "ml-1m-r3", ROOT / "results", tmp_path)
    table = page.read_text(encoding="utf-8").partition("K on ml-1m-r3")[2].partition("</table>")[0]
    assert [row[0] for row in cells(table)] == ["K", "100", "200", "500", "1000", "2000"]


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


def test_the_report_holds_the_table_and_asks_for_runs_where_there_are_none(
    log: str, tmp_path: Path
) -> None:
    run_grid([spec(log, "baselines")], tmp_path / "results")
    page = write_outputs(["table4"], "toy", tmp_path / "results", tmp_path / "out")
    text = page.read_text(encoding="utf-8")
    assert "toppop" in text
    assert "<svg" in text
    assert "<link" not in text
    assert "src=" not in text
    assert "itemknn" in (tmp_path / "out" / "table4.md").read_text(encoding="utf-8")
    assert "Quick settings" not in text
    with pytest.raises(DataError, match="python -m reproduction table6"):
        write_outputs(["table6"], "toy", tmp_path / "results", tmp_path / "out")


def test_a_table_of_quick_runs_says_so(log: str, tmp_path: Path) -> None:
    run_grid([spec(log, "baselines-quick")], tmp_path / "results")
    out = tmp_path / "out"
    page = write_outputs(["table4"], "toy", tmp_path / "results", out, quick=True)
    assert "Quick settings" in page.read_text(encoding="utf-8")
    assert "Quick settings" in (out / "table4.md").read_text(encoding="utf-8")


def test_everything_renders_without_a_record_and_says_how_to_run_it(tmp_path: Path) -> None:
    names = ["table2", "table3", "table5", "table7", "figure4a", "alpha", "neighbours", "authors"]
    statistics = {"users": 5, "items": 7}
    page = write_outputs(
        names, "anime-5k", tmp_path, tmp_path / "out", statistics=statistics, skip_missing=True
    )
    table = (tmp_path / "out" / "table3.md").read_text(encoding="utf-8")
    assert "| dlr2 | leporid | - | not run yet | " in table
    assert "`python -m reproduction table3 --dataset anime-5k`" in table
    assert "| dlr2 | node2vec | - | not run yet | - |" in table
    text = page.read_text(encoding="utf-8")
    for name in ("figure4a", "alpha", "neighbours"):
        assert f"<code>python -m reproduction {name} --dataset anime-5k</code>" in text
    assert NOT_FETCHED in text
    assert (tmp_path / "out" / "table2.json").is_file()
    assert build_table("table3", [], "steam").missing == NOT_FETCHED
