"""The ways to start: training interactions in, one starting vector for each user and item out.

`start` is how everything else gets vectors; one file per initialiser, found by its name.

base             `Initializer` and its settings; `InitialEmbeddings`: vectors, ids and provenance
bipartite        The user-item graph: its rows, and the kernels of second-order walks on it
bpr              `bpr`: matrix factorisation trained to rank a user's items above the others
cache            `start`: vectors by name, fitted or found again on disk
catalogue        The names of the initialisers, resolved when they are asked for
content          `content`: where the items' descriptions put them
content_graph    Edges between items with like content, and how much they count
graph_bert       `graph_bert`: attention over a node's intimate nodes, found by PageRank
language_model   `text_vectors`: what a local language model makes of the texts in an item table
le               `le`: Laplacian Eigenmaps of the user and the item KNN graphs
leporid          `leporid`: eigenmaps with popularity regularisation
leporid_content  `leporid_content`: LEPORID, with items that few people touched placed by content
netmf            `netmf`: DeepWalk as matrix factorisation, on the user and the item KNN graphs
node2vec         `node2vec`: random walks on the bipartite user-item graph, then skip-gram
one_space        User and item vectors in one space: the mean of the items, or a rotation
out_of_core      `embed_stored`: `le` and `leporid` for a log that does not fit into memory
random           `random`: independent normal numbers
spectral_sides   What `le` and `leporid` share: one spectral estimator per side
svd              `svd`: the truncated singular value decomposition of the interaction matrix
"""

import lazy_loader

from leporid._deprecated import deprecated_names

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
deprecated_names(
    __name__,
    {
        "ItemFeatures": "leporid.data.ItemFeatures",
        "item_features": "leporid.data.item_features",
    },
)
