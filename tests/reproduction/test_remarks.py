"""The numbers of remarks, by hand where they are small."""

from __future__ import annotations

from pathlib import Path

from reproduction.remarks import counts, remark_values

ROOT = Path(__file__).resolve().parents[2]


def test_counts_of_cells_by_hand() -> None:
    cells = {
        ("a", "m", "HR@5"): {"random": 0.1, "svd": 0.3, "le": 0.2, "leporid": 0.4},
        ("a", "m", "HR@10"): {"random": 0.5, "svd": 0.3, "le": 0.6, "leporid": 0.4},
    }
    assert counts(cells) == (2, 1, 1)


def test_the_counts_of_the_printed_table_are_those_that_the_paper_states() -> None:
    found = remark_values(ROOT / "results")
    assert (found["cells"], found["svd"], found["le"]) == ("60", "20", "32")
    assert found["bound"] == "99.91"
    assert found["right_bound"] == "95.76"
