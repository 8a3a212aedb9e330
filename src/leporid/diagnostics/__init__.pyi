from .doctor import examine as examine
from .doctor import self_tests as self_tests
from .inspection import Inspection as Inspection
from .inspection import Movement as Movement
from .inspection import find_item as find_item
from .inspection import inspect_embeddings as inspect_embeddings
from .inspection import movement as movement
from .inspection import summarize as summarize
