"""What a race is run on, and what the chosen model learns from before the test."""

from __future__ import annotations

import numpy as np

from leporid.data import Split, rehearsal


def stage_of(split: Split) -> Split | None:
    """The split the race is run on: a rehearsal, or on a tiny log validation alone."""
    nothing = split.train.select(np.empty(0, np.int64))
    short = Split(split.train, nothing, split.valid, split.protocol)
    for stage in (rehearsal(split), short):
        if len(stage.train) and len(stage.test):
            return stage
    return None


def tested_on(split: Split) -> Split:
    """What the chosen model learns from before the test: validation, which chose it, as well."""
    nothing = split.train.select(np.empty(0, np.int64))
    return Split(split.train_valid, nothing, split.test, split.protocol)
