"""Pages: what a template makes of hostile values, and figures that are equal text."""

from __future__ import annotations

import re
from pathlib import Path

import jinja2
import pytest

from leporid.pages import fill_template, new_figure, to_svg


def test_values_are_escaped_and_missing_ones_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "__init__.py").touch()
    (tmp_path / "room" / "page.html").write_text("<h1>{{ title }}</h1>")
    monkeypatch.syspath_prepend(tmp_path)
    assert fill_template("room", "page.html", title="<b> & é") == "<h1>&lt;b&gt; &amp; é</h1>"
    with pytest.raises(jinja2.UndefinedError):
        fill_template("room", "page.html", heading="x")


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
