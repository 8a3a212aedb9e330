"""Neighbours, graph and eigenvectors in blocks of rows on a Dask cluster.

`Leporid.fit(X, client=client)` comes here through `leporid.graph.remote`: the workers hold blocks
of rows of the graph and multiply them; the eigensolver itself runs on the client.

blocks   What workers compute, and where: neighbours, the edges blocks send each other, products
cluster  A Dask cluster: checked at the door, waited for with patience that ends
graph    `BlockGraph`, a graph whose blocks of rows stay on the workers; `DaskGraphs` builds it
workers  Any function on any worker, with the log sent once
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
