"""Fit, test, record: single runs, grids of runs, tuning, and the folders they are kept in.

fit_and_test  Fit a model, test it once, record it, compare it with baselines
grid          `ExperimentSpec` (a TOML file), its `Cell`s, and the runner: resumable, shared
journal       `Journal`: finished work as JSON lines; `claim`: one process per piece of work
record        `RunRecord`: one run as JSON; run folders, side by side; `Results` of grids; `Meter`
report        The pages of `leporid train` and `leporid compare`, and HR@10 in words
tuning        `tune`: the settings of a model that do best on validation, found with Optuna
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
