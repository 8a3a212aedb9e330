from .compare_runs import compare_runs as compare_runs
from .gains import initialisation_gains as initialisation_gains
from .grid import run_grid as run_grid
from .outcomes import UserOutcomes as UserOutcomes
from .record import RunRecord as RunRecord
from .spec import Cell as Cell
from .spec import ExperimentSpec as ExperimentSpec
