"""Exact neighbours of the rows of an interaction matrix, and the graph they make.

Rows are sets of columns. `knn_graph` joins every row to its K most similar rows, on the CPU or a
GPU; `stored_knn_graph` does so with the edges on disk, `leporid.distributed` on a cluster. All of
them are `Graph`s, which is what the eigensolver of `leporid.spectral` takes.

directed      Top-K neighbours as rows with ascending indices: what all the others start from
fused         The K best by one Triton kernel, without writing similarities down
gpu           The graph with torch: dense 0/1 products, top-K and symmetrisation on one device
kernels       The compiled loops
knn           `knn_graph`: the graph of the rows of an interaction matrix
matrix        From whatever the caller has to sets of columns: a checked, binary CSR matrix
nearest_rows  Weighted sums over the neighbours that new rows have among the rows of a graph
neighbours    `top_k_neighbours`: ranked lists of similar rows, for the KNN recommenders
remote        Graphs that other processes build and keep: what `fit(client=...)` takes
similarity    The similarities of sets, in the one form the search computes
stored        `stored_knn_graph`: the graph in files that are mapped into memory
symmetrise    OR-symmetrise top-K lists into a graph
types         `KnnGraph`, and `Graph`: what a solver needs of any graph
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
