from __future__ import annotations

import csv
import io

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from leporid.data import quoting


def scanned(text: str, size: int, row: int = -1) -> tuple[bool, list[int]]:
    state, stopped = quoting.initial_state(), False
    raw = np.frombuffer(text.encode(), np.uint8)
    for begin in range(0, len(raw), size):
        if stopped := quoting.scan(raw[begin : begin + size], ord(","), True, row, state):
            break
    return stopped, state.tolist()


@given(st.text('a",\n\r', max_size=30), st.integers(1, 8))
@settings(deadline=None, max_examples=400)
def test_rows_lines_and_broken_quotes_are_those_of_strict_csv(text: str, size: int) -> None:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    began, before, broken = [], 0, False
    try:
        for fields in reader:
            if fields:
                began.append(before + 1)
            before = reader.line_num
    except csv.Error:
        broken = True
    stopped, state = scanned(text, size)
    assert (stopped or state[quoting.MODE] == quoting.IN_QUOTES) == broken
    if not broken:
        assert state[quoting.ROW] + (state[quoting.LENGTH] > 0) == len(began)
    for row, line in enumerate(began):
        assert scanned(text, size, row)[1][quoting.BEGAN] == line


def test_a_row_in_the_middle_of_a_field() -> None:
    """A quote there is text: the state may start between two chunks."""
    state = quoting.initial_state(7, within=True)
    assert not quoting.scan(np.frombuffer(b'"x\n', np.uint8), ord(","), True, -1, state)
    assert state[quoting.MODE] == quoting.FIELD_START
    assert state[quoting.LINE] == 8
