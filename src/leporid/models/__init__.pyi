from .shared.base import HistoryUnsupportedError as HistoryUnsupportedError
from .shared.base import Recommender as Recommender
from .shared.catalogue import available as available
from .shared.catalogue import get as get
from .shared.catalogue import register as register
from .shared.fitting import train as train
from .shared.neural import NeuralRecommender as NeuralRecommender
