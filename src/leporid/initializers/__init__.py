"""Initialisers: training interactions in, one vector for each user and item out.

base         `Initializer` and its settings, `InitialEmbeddings`, `initial_embeddings` and the cache
bpr          `bpr`: matrix factorisation trained to rank a user's items above the others
catalogue    The names of the initialisers, resolved on first use
content      `content` and `leporid_content`: item vectors from a table about the items
graph_bert   `graph_bert`: attention over a node's intimate nodes, found by PageRank
leporid      `le` and `leporid`: Laplacian eigenmaps, row lengths, and their choice by a probe
netmf        `netmf`: DeepWalk as matrix factorisation, on the user and the item kNN graphs
node2vec     `node2vec`: random walks on the bipartite user-item graph, then skip-gram
out_of_core  `embed_stored`: `le` and `leporid` for a log that does not fit into memory
random       `random`: independent normal numbers
svd          `svd`: the truncated singular value decomposition of the interaction matrix
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
