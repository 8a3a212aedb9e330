"""The HTML report in a real browser: it stands alone, sorts, and fits the window."""

from __future__ import annotations

from pathlib import Path

import pytest

from leporid.data import synthesize, write_log
from leporid.runs import ExperimentSpec, run_grid
from reproduction.outputs import write_outputs
from reproduction.store import PackedResults
from tests.chromium import Page, find_chromium

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_chromium() is None, reason="no Chromium: install Debian's package `chromium`"
    ),
]
MODELS = "[...document.querySelector('table.paper-table').tBodies[0].rows].map((r) => {0})"


def column(page: Page, number: int) -> list[str]:
    """The cells of a column of the first paper table, from top to bottom."""
    cells: list[str] = page.run(MODELS.format(f"r.cells[{number}].textContent"))
    return cells


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """Table 4 and Figure 1 on toy data: three models without vectors, BPR from two starts."""
    log = tmp_path / "log.parquet"
    write_log(synthesize(90, 70, 1800, seed=3), log)
    shared = {"dataset": "toy", "source": str(log), "core": 1}
    specs = [
        {**shared, "name": "baselines", "models": ["toppop", "itemknn", "ease"]},
        {**shared, "name": "bpr", "models": ["bpr"], "settings": {"bpr": {"steps": 20}}},
    ]
    run_grid([ExperimentSpec.from_dict(spec) for spec in specs], tmp_path / "results", device="cpu")
    names = ["table4", "table5", "figure1"]
    out = tmp_path / "out"
    return write_outputs(names, "toy", tmp_path / "results", out, skip_missing=True)


def test_the_report_stands_alone_and_a_click_sorts(
    page: Page, report: Path, tmp_path: Path, pictures: Path
) -> None:
    page.size(1280, 1000)
    page.open(report.as_uri())
    page.wait(
        "document.readyState === 'complete' && document.querySelector('thead button') !== null"
    )
    assert page.run("document.querySelectorAll('figure svg').length") == 2

    names = page.run(
        "[...document.querySelector('.paper-table').tHead.rows[0].cells].map((c) => c.textContent)"
    )
    place = names.index("HR@10")
    before = column(page, place)
    records = PackedResults(tmp_path / "results").records("toy", ["baselines", "bpr"])
    expected = sorted((r.metrics["HR@10"] for r in records), reverse=True)
    assert [float(value) for value in before] != pytest.approx(expected, abs=1e-4)
    head = f".paper-table th:nth-child({place + 1})"
    page.click(f"{head} button")
    assert [float(value) for value in column(page, place)] == pytest.approx(expected, abs=1e-4)
    assert page.run(f"document.querySelector('{head}').ariaSort") == "descending"
    page.click(f"{head} button")
    assert [float(v) for v in column(page, place)] == pytest.approx(expected[::-1], abs=1e-4)

    # Words go from A to Z first, and back.
    page.click(".paper-table th:first-child button")
    assert column(page, 0) == sorted(record.model for record in records)
    page.click(".paper-table th:first-child button")
    assert column(page, 0) == sorted((record.model for record in records), reverse=True)
    page.screenshot(pictures / "report-light.png")

    # The summary is on the first screen, and no heading is empty.
    assert page.run("document.querySelector('.summary').getBoundingClientRect().bottom") < 400
    assert "5 runs of 4 models on toy. The best HR@10 is" in page.run(
        "document.querySelector('.summary').textContent"
    )
    assert page.run("[...document.querySelectorAll('h2')].every((h) => h.textContent.trim())")
    assert page.run("[...document.querySelectorAll('tbody')].every((body) => body.rows.length)")

    # Wide tables scroll inside the page, which itself is never wider than a phone.
    page.size(390, 844, dark=True)
    page.wait("document.documentElement.scrollWidth <= 390")
    page.screenshot(pictures / "report-phone-dark.png")
    # So do pictures: they stay large enough to be read.
    assert page.run("document.querySelector('figure svg').getBoundingClientRect().width") > 400
    # A dark page shows pictures in the colour of its text, on its own background.
    letters = "getComputedStyle(document.querySelector('figure svg text, figure svg use')).fill"
    assert page.run(letters) == page.run("getComputedStyle(document.body).color")
    assert page.run("getComputedStyle(document.querySelector('figure')).backgroundColor").endswith(
        ", 0)"
    )
    assert page.requests() == [report.as_uri()]
    assert page.complaints() == []
