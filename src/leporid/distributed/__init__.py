"""Neighbours, graph and eigenvectors in blocks of rows on a Dask cluster.

`Leporid.fit(X, client=client)` makes a `BlockGraph`: the workers hold blocks of rows of it and
multiply them; the eigensolver itself runs on the client.

cluster  `Cluster`: tasks and timeouts on the workers
graph    `BlockGraph`, a graph whose blocks of rows stay on the workers, and what these compute
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
