from .layout import NeighbourLists as NeighbourLists
from .layout import search_bytes as search_bytes
