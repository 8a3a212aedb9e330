"""axe-core, the usual checker of accessibility, finds nothing wrong with the page and the reports.

`make browser` fetches it; LEPORID_AXE names its file.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import leporid
from leporid.foundation import Series, chart_html, write_report
from tests.chromium import Page, find_chromium
from tests.made_runs import train_to
from tests.serve.test_kill import server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_chromium() is None, reason="no Chromium: install Debian's package `chromium`"
    ),
    pytest.mark.skipif(
        not os.environ.get("LEPORID_AXE"),
        reason="no axe-core: `npm pack axe-core`, and LEPORID_AXE=.../package/axe.min.js",
    ),
]
WINDOWS = [(1280, 1000, False), (1280, 1000, True), (390, 844, False), (390, 844, True)]
"""Width, height, and whether dark colours are preferred."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A final model and a validated one."""
    folder = tmp_path_factory.mktemp("runs")
    split = leporid.temporal_split(leporid.synthesize(90, 60, 1800, seed=3))
    for name in ("itemknn", "toppop"):
        is_final = name == "itemknn"
        train_to(folder / name, name, split, final=is_final)
    points, names = [(0.1, 0.2), (30, 0.3)], ["a", "b"]
    chart = [Series("line", points, 0), *(Series(f"{i}", points, i, names) for i in range(8))]
    charts = chart_html(chart, "ms", "Quality", log=True, named=names)
    write_report(folder / "charts.html", "all charts", [("Charts", charts)], "In words.")
    return folder


@pytest.mark.parametrize(("width", "height", "dark"), WINDOWS)
def test_the_page(
    page: Page, runs: Path, tmp_path: Path, width: int, height: int, dark: bool
) -> None:
    with server(runs / "itemknn", tmp_path / "events.db", "--compare", str(runs / "toppop")) as (
        _,
        address,
    ):
        page.size(width, height, dark=dark)
        page.open(address)
        page.wait("document.body && document.body.dataset.ready === 'yes'")
        for part in ("choose", "recs", "near"):
            page.run(f"showTab(document.getElementById('t-{part}'))")
            assert page.axe() == []


@pytest.mark.parametrize(("width", "height", "dark"), WINDOWS)
@pytest.mark.parametrize("report", ["itemknn/report.html", "charts.html"])
def test_a_report(page: Page, runs: Path, report: str, width: int, height: int, dark: bool) -> None:
    page.size(width, height, dark=dark)
    page.open((runs / report).as_uri())
    page.run("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    assert page.axe() == []
    # Wide tables scroll in a box of their own, and charts shrink with the window.
    assert page.run("document.documentElement.scrollWidth") <= width
    boxes = "[...document.querySelectorAll('.chart svg[role=img]')].map((e) => e.clientWidth)"
    assert all(width / 2 < box < width for box in page.run(boxes))


def test_it_would_find_something(page: Page, tmp_path: Path) -> None:
    (tmp_path / "bad.html").write_text("<p style='color: #ccc'>faint</p><input>")
    page.open((tmp_path / "bad.html").as_uri())
    assert {line.split()[0] for line in page.axe()} >= {"color-contrast", "label"}
