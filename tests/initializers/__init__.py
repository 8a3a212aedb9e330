"""A test file per source file, and some that cover several.

test_base covers `catalogue`; test_graph_bert `intimacy`; test_node2vec `bipartite`;
test_spectral_sides `le` and `leporid`.
"""
