"""Runs: fit, test, compare with baselines, record; grids of runs and tuning.

`execute` carries out a `RunSpec` and returns a `Run`; `save_run` writes it into a folder.

baselines  The verdict of a test against the baselines on the same split
compare    Runs side by side: intervals, paired tests, and the page of `leporid compare`
execution  `RunSpec`, `execute` and `Run`
folder     The folder of a run: `save_run`, `execute_to_folder`, `read_run`
grid       `ExperimentSpec` (a TOML file), its `Cell`s, and the runner: resumable, shared
journal    `Journal`: finished work as JSON lines; `try_lock`: one process per piece of work
meter      `Meter`: wall-clock time and peak memory of a block of code
proposals  The settings that Optuna wants to try next
record     `RunRecord`: one run as JSON; `Results` of grids
report     The page of a run
tuning     `tune`: the settings of a model that do best on validation, found with Optuna
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
