"""The auditor agrees with the pages, and sees a number or a word that is changed."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from docs.make_pages import generated
from reproduction.audit.__main__ import audit_pages
from reproduction.audit.checks import Audit, tables
from reproduction.audit.records import Found, Store, compared, holm
from reproduction.audit.verdict import VerdictAudit

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_every_number_and_word_of_the_pages_follows_from_the_records(tmp_path: Path) -> None:
    pages = {Path(name).name: text for name, text in generated().items()}
    for name in ("results.md", "initialisation.md"):
        pages[name] = (ROOT / "docs" / name).read_text(encoding="utf-8")
    for name, text in pages.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    audit = audit_pages(tmp_path, ROOT / "README.md", ROOT / "results")
    assert audit.wrong == []
    assert audit.left == []
    assert audit.numbers.total() > 8000
    assert audit.words.total() > 2500


@pytest.mark.slow
def test_changed_pages_are_seen() -> None:
    text = (ROOT / "docs" / "verdict.md").read_text(encoding="utf-8")
    store = Store(ROOT / "results")
    for right, wrong in (
        ("| 0.5126 | 0.5149 |", "| 0.5127 | 0.5149 |"),
        ("dlr2 random, tail users | 3, 3 |", "dlr2 random, tail users | 3, 5 |"),
        ("| +12.0%, outside | better |", "| +12.0% | better |"),
        ("+0.4% | -0.9%, outside | equivalent |", "+0.4% | -0.9%, outside | inconclusive |"),
        ("**Confirmed in part.** LEPORID beats LE", "**Confirmed.** LEPORID beats LE"),
        ("take 5.6, 18.8, 42.4 seconds", "take 5.6, 18.8, 42.5 seconds"),
    ):
        assert right in text, right
        audit = Audit("verdict.md")
        VerdictAudit(audit, store).verdict(text.replace(right, wrong))
        assert len(audit.wrong) == 1, (right, audit.wrong)
    row = next(
        line for line in text.splitlines() if "| initialisers: hgn leporid - hgn le " in line
    )
    audit = Audit("verdict.md")
    VerdictAudit(audit, store).verdict(text.replace(row + "\n", "", 1))
    assert any("lines of the details" in wrong for wrong in audit.wrong)


def test_numbers_are_compared_to_half_a_unit_of_the_last_digit() -> None:
    audit = Audit("page")
    for shown, value in (
        ("0.12", 0.1249),
        ("**+1.5%**", 1.45),
        ("12,345", 12345),
        ("1.2e-15", 1.23e-15),
    ):
        audit.number(shown, value, "here")
    assert audit.wrong == []
    for shown, value in (("0.12", 0.1251), ("-0.1", 0.1), ("none", 0.0)):
        audit.number(shown, value, "here")
    assert len(audit.wrong) == 3
    assert audit.numbers["page"] == 7


def test_tables_are_read_and_a_short_one_before_the_whole_is_left_out() -> None:
    text = (
        "## One\n\n| a | b |\n|---|---:|\n| 1 |  |\n\n<details>\n\n| a | b |\n|---|---:|\n"
        "| 1 |  |\n| 2 | x |\n\n</details>\n"
    )
    [table] = tables(text)
    assert (table.heading, table.header) == ("One", ("a", "b"))
    assert table.rows == (("1", ""), ("2", "x"))


def test_one_run_each_is_the_paired_t_test() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 40))
    found = compared({1: a}, {2: b})
    oracle = stats.ttest_rel(a, b)
    assert found.p == pytest.approx(oracle.pvalue)
    assert found.low == pytest.approx(oracle.confidence_interval().low)


def test_holm_by_hand() -> None:
    family = [Found(0.0, 0.0, 0.0, math.inf, p) for p in (0.01, 0.04, 0.03, 0.005)]
    assert [one.p for one in holm(family)] == pytest.approx([0.03, 0.06, 0.06, 0.02])
