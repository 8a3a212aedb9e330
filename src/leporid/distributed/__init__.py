"""Neighbours, graph and eigenvectors in blocks of rows on a Dask cluster.

blocks      The blocks of a KNN graph on the workers of a Dask cluster: how they are made and multip
cluster     A Dask cluster as this room sees it: checked at the door, waited for with patience that
fit         The way from an estimator to a cluster
graph       `BlockGraph`: a KNN graph whose edges stay on the workers of a Dask cluster
neighbours  What workers do first: the neighbours of a block of rows among all rows, by the usual ke
product     W x, block of rows by block of rows: each worker multiplies the edges it has
shuffle     Symmetrisation without a meeting place: blocks send each other the edges the other lacks
wire        Arrays as Dask hands them to a task
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
