from .layout import NeighbourLists as NeighbourLists
from .layout import search_bytes as search_bytes
from .symmetrise import Limits as Limits
from .symmetrise import add_lacking as add_lacking
from .symmetrise import merge_rows as merge_rows
from .symmetrise import row_limits as row_limits
