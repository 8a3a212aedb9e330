from .formats import FORMATS as FORMATS
from .formats import read_any as read_any
from .formats import read_embeddings as read_embeddings
from .formats import write_embeddings as write_embeddings
from .implicit import to_implicit as to_implicit
from .tables import CONFIG_LINES as CONFIG_LINES
from .torch_modules import initialize as initialize
