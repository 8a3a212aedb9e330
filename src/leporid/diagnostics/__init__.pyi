from .inspection import Inspection as Inspection
from .inspection import find_item as find_item
from .inspection import inspect_embeddings as inspect_embeddings
