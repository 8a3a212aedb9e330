from .evaluator import evaluate as evaluate
from .metric_table import Interval as Interval
from .metric_table import MetricTable as MetricTable
from .recommendations import Recommendations as Recommendations
from .significance import Comparison as Comparison
from .significance import Significance as Significance
from .significance import compare as compare
from .significance import holm as holm
