"""`fuzz_loads`: 3,000 files with every run of the tests, 30,000 with the slow ones."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path

import pytest

from leporid import load
from tests.attack.fuzz_loads import attack, expected
from tests.data.strategies import external_rows


@pytest.mark.parametrize(
    "cases",
    [range(1_000), pytest.param(range(1_000, 31_000), marks=pytest.mark.slow)],
    ids=["1000", "30000"],
)
def test_what_is_read_is_right_and_what_is_refused_is_a_sentence(cases: range) -> None:
    outcomes, wrong = attack(cases)
    assert not wrong, "\n".join(wrong[:10])
    assert sum(outcomes.values()) == len(cases)
    assert min(outcomes.values()) > len(cases) / 200, outcomes


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 40))]
)
def test_line_breaks_in_quotes_across_blocks(tmp_path: Path, seed: int) -> None:
    """Larger than a block of the reader, with line breaks, quotes and separators in the ids."""
    random_ = random.Random(seed)
    end = random_.choice(["\n", "\r\n"])
    odd = ["a\nb", "a\r\nb", 'say "x"', "\n\n", ",\n,", '"\n"', "plain", 'a"\rb']
    fill = "long " * random_.randint(1, 60)
    rows = [
        (f"u{k % 911}", f"{odd[k % len(odd)]} {fill}{k % 1009}".strip(), k)
        for k in range(6_000_000 // (len(fill) + 30))
    ]
    out = io.StringIO(newline="")
    quoting = random_.choice([csv.QUOTE_ALL, csv.QUOTE_MINIMAL])
    csv.writer(out, lineterminator=end, quoting=quoting).writerows(
        [("user", "item", "time"), *rows]
    )
    path = tmp_path / "log.csv"
    path.write_bytes(out.getvalue().encode())
    assert path.stat().st_size > 5 << 20
    data = load(path)
    assert data.source is not None
    assert data.source.rows == len(rows)
    assert external_rows(data) == expected(rows)
