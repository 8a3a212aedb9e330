"""Where rows begin and quotes close in delimited text, byte by byte.

A quote opens a field only at its beginning, is written twice inside it, and closes it before the
separator or the end of the line. pyarrow reads whatever breaks these rules, up to the next quote
far below.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leporid.kernel import kernel

MODE, LINE, ROW, BEGAN, LENGTH, OPENED, INNER, PREVIOUS = range(8)
"""Indices into the state: the mode, the line (from 1), rows so far, the line where this row began,
its bytes so far, the line of the last quote that opened, line breaks inside quotes, and the byte
before."""
FIELD_START, IN_FIELD, IN_QUOTES, AFTER_QUOTE, CLOSED = range(5)
"""Modes. AFTER_QUOTE may be the end of a field or half of a doubled quote."""
_QUOTE, _CR, _LF, _SPACE = 34, 13, 10, 32


def initial_state(line: int = 1, within: bool = False) -> NDArray[np.int64]:
    """The state at the beginning of `line`, or `within` a field that has no quotes."""
    state = np.zeros(8, np.int64)
    state[LINE] = state[BEGAN] = line
    state[MODE] = state[LENGTH] = IN_FIELD if within else FIELD_START
    return state


@kernel
def scan(
    text: NDArray[np.uint8], separator: int, quoting: bool, row: int, state: NDArray[np.int64]
) -> bool:
    """Go on through `text`; True where it stops, at the beginning of `row` or a broken quote."""
    mode, length, previous = state[MODE], state[LENGTH], state[PREVIOUS]
    stopped = False
    for byte in text:
        breaks = byte in (_CR, _LF)
        if length == 0 and not breaks:
            state[BEGAN] = state[LINE]
            if state[ROW] == row:
                stopped = True
                break
        if mode == IN_QUOTES:
            if byte == _QUOTE:
                mode = AFTER_QUOTE
            state[INNER] += breaks
        elif mode == AFTER_QUOTE and byte == _QUOTE:
            mode = IN_QUOTES
        elif breaks:
            state[ROW] += length > 0
            mode, length = FIELD_START, -1
        elif byte == separator:
            mode = FIELD_START
        elif mode in (AFTER_QUOTE, CLOSED):
            if byte != _SPACE:
                stopped = True
                break
            mode = CLOSED
        elif mode == FIELD_START and byte == _QUOTE and quoting:
            mode, state[OPENED] = IN_QUOTES, state[LINE]
        else:
            mode = IN_FIELD
        if breaks and not (byte == _LF and previous == _CR):
            state[LINE] += 1
        length += 1
        previous = byte
    state[MODE], state[LENGTH], state[PREVIOUS] = mode, length, previous
    return stopped
