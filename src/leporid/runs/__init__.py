"""Fit, test, record: single runs, grids of runs, tuning, and the folders they are kept in.

compare   Runs side by side: intervals, paired tests, and the page of `leporid compare`
execute   Fit a model, test it once, record it, compare it with baselines; its page
grid      `ExperimentSpec` (a TOML file), its `Cell`s, and the runner: resumable, shared
journal   `Journal`: finished work as JSON lines; `claim`: one process per piece of work
record    `RunRecord`: one run as JSON; run folders; `Results` of grids; `Meter`
tuning    `tune`: the settings of a model that do best on validation, found with Optuna
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
