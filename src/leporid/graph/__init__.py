"""Exact Jaccard neighbours of the rows of a matrix, and the graph they make.

approximate  Approximate neighbours: look only where neighbours are likely, and say how many were fo
bitset       Lay rows out for the search: popular columns as bits, the rest as lists
directed     Top-K neighbours as rows with ascending indices: what graphs and recommenders start fro
gpu          The neighbour graph with torch: dense 0/1 products, top-K and symmetrisation on one dev
knn          `knn_graph`: the neighbour graph of the rows of an interaction matrix, exact or nearly
layout       What the search reads, works in and writes, as plain arrays the kernels can take
matrix       From whatever the caller has to sets of columns: a checked, binary CSR matrix
neighbours   `top_k_neighbours`: ranked lists of similar rows, for the KNN recommenders and for new
new_rows     The rows of W that new rows would have: their weights to fitted rows, by the same OR ru
offer        Offer every row to those it chose, so that both sides of a pair know of it
refresh      `refresh_graph`: the graph of a log that has grown, from the graph it had
search       The neighbour search: count what two rows share, keep what can still be among the K bes
selection    Keep the K best of a buffer of candidates, in the order they came
simd         Sixteen 32-bit lanes at a time, for the neighbour kernels
similarity   The similarities of sets, in the one form the search computes
stored       `stored_knn_graph`: the exact graph, its lists and edges in files that are mapped into
symmetrise   OR-symmetrise top-K lists into a graph: W_ij is set if j is in top-K(i) or i in top-K(j
types        `KnnGraph`: the weighted neighbour graph LE and LEPORID are computed from
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
