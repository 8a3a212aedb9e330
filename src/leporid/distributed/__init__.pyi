from .cluster import Cluster as Cluster
from .cluster import Workers as Workers
from .cluster import connect as connect
from .graph import BlockGraph as BlockGraph
from .graph import DaskGraphs as DaskGraphs
from .graph import graph_builder as graph_builder
