from .study import TuningResult as TuningResult
from .study import tune as tune
