from .knn import knn_graph as knn_graph
from .neighbours import Neighbours as Neighbours
from .neighbours import top_k_neighbours as top_k_neighbours
from .new_rows import NewRows as NewRows
from .similarity import SIMILARITIES as SIMILARITIES
from .stored import stored_knn_graph as stored_knn_graph
from .types import KnnGraph as KnnGraph
