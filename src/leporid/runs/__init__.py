"""One cell, one run, one record; grids of them, folders of them, and their comparison.

baselines     The table of tuned classical baselines: one command, one record a model
cell          Run one cell of a grid: load, split, initialise, train, evaluate, record
claims        Several processes, one directory, no cell run twice
compare_runs  Runs side by side: metrics, intervals, and whether one really differs from another
gains         What LEPORID vectors gain over random ones, model by model, with an interval over user
grid          The grid runner: resumable, shareable, and honest about failures
outcomes      What each user got, in a few bytes: enough to compare two runs user by user
record        `RunRecord`: one run, everything needed to believe it and to repeat it, as one JSON fi
run_folder    A run on disk: the model, its record, its history, and what each user got
spec          An experiment as data: which models, initialisers, seeds and settings, in one TOML fil
worker        One worker process of a grid: `python -m leporid.runs.worker SPECS --root results`
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
