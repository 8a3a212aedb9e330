"""The compiled loops of the neighbour search and of products with a graph.

Each has a reference of a few lines in its test.

layout      What the search reads, works in and writes, and how much memory that takes
product     The sparse x block product of the eigensolver: 16 columns at a time
search      Count what two rows share, keep the K best of the candidates
symmetrise  The edges that rows lack because only the other row chose them
"""
