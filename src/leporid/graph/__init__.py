"""Exact neighbours of the rows of an interaction matrix, and the graph they make.

Rows are sets of columns. `knn_graph` joins every row to its K most similar rows, on the CPU or a
GPU; `stored_knn_graph` keeps the edges on disk, `leporid.distributed` on a cluster. All of them
are `Graph`s, which the eigensolver of `leporid.embeddings` takes.

fused          The K best by one Triton kernel, without storing similarities
gpu            The graph with torch: dense 0/1 products, top-K and symmetrisation on one device
kernels        The compiled loops
knn            `knn_graph` and `stored_knn_graph`: top-K lists, made symmetric
nearest_block  `NearestBlock`: what both searches on a GPU find for a block of rows
nearest_rows   Weighted sums over the neighbours that new rows have among the rows of a graph
neighbours     `top_k_neighbours`: ranked lists of similar rows, and the search itself
types          `BinaryCSR`, the rows as sets; `Similarity`; `KnnGraph` and the protocols of graphs
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
