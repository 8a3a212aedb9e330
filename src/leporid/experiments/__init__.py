"""One cell, one run, one record; grids of runs, the folder of their results, their comparison.

`judge` in `cell` is the only maker of records: whoever trains a model (the command line, a grid,
the tuning of baselines, the demo) ends there.

baseline_check  TopPop, ItemKNN and EASE beside a trained model, in words
baselines       Classical models, each tuned with the same budget and judged once
cell            `Cell` (one run as data), `run` (do it), `judge` (test a fitted model, record it)
claims          Several processes, one directory, no cell run twice
comparison      Runs side by side: metrics, intervals, comparisons, gains of initialisations
grid            The grid runner: resumable, shareable, and honest about failures
record          `RunRecord`: one run as one JSON object, and `Meter` for its time and memory
run_folder      What `leporid train` writes and `leporid compare` reads
spec            `ExperimentSpec`: a grid in one TOML file
store           `Results`: all records under a folder, one file each or packed by data set
tuning          `tune`: the settings of a model that do best on validation, found with Optuna
tuning_ledger   Trials of a study that several processes share
tuning_workers  Which workers of a study are alive
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
