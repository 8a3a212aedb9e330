"""Fit, test, record: single runs, grids of runs, tuning, and the folders they are kept in.

baselines        TopPop, ItemKNN and EASE beside a trained model, in words
cell             `Cell` (one run of a grid as data) and `run_cell`
comparison       Runs side by side: metrics, intervals, comparisons, gains of initialisations
fit_and_test     Fit a model, test it once, record it: every maker of records ends here
grid             The grid runner: resumable, shared by processes, failures recorded
journal          `Journal`: finished work as JSON lines; `claim`: one process per piece of work
record           `RunRecord`: one run as one JSON object, and `Meter` for its time and memory
run_folder       What `leporid train` writes and `leporid compare` reads
spec             `ExperimentSpec`: a grid in one TOML file
store            `Results`: all records under a folder, one file each or packed by data set
tuned_baselines  Classical models, each tuned with the same budget and tested once
tuning           `tune`: the settings of a model that do best on validation, found with Optuna
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
