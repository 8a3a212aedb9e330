from .cluster import Cluster as Cluster
from .cluster import connect as connect
from .graph import BlockGraph as BlockGraph
from .graph import DaskGraphs as DaskGraphs
from .workers import Workers as Workers
