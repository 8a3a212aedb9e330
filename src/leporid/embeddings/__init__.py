"""Initial embeddings: interactions in, one vector for each user and each item out.

`initial_embeddings` fits a method by name. `Leporid` and `LaplacianEigenmaps` are the same methods
with scikit-learn's interface, for any `leporid.graph.Graph`.

base           `Initializer` and its settings, `InitialEmbeddings`, `initial_embeddings`, the cache
bpr            `bpr`: matrix factorisation trained to rank a user's items above the others
content        `content` and `leporid_content`: item vectors from a table about the items
eigenpairs     `laplacian_eigenpairs`: checks, the choice of a solver, LAPACK, warnings
fit            `EmbeddingSpec`: which initial embeddings to fit
estimators     `Leporid` and `LaplacianEigenmaps`, and the folders they are saved in
graph_bert     `graph_bert`: attention over a node's intimate nodes, found by PageRank
lanczos        Block Lanczos with thick restart, its dense algebra, the float64 check
lanczos_gpu    Lanczos on a torch device
laplacian      Degrees, popularity regularisation, the operator and its product with a block
leporid        `le` and `leporid`: Laplacian eigenmaps, row lengths, and their choice by a probe
netmf          `netmf`: DeepWalk as matrix factorisation, on the user and the item kNN graphs
node2vec       `node2vec`: random walks on the bipartite user-item graph, then skip-gram
out_of_sample  Landmarks and out-of-sample extension, of eigenvectors and of a trained table
random         `random`: independent normal numbers
registry       The names of the methods, resolved on first use
streaming      `embed_stored`: `le` and `leporid` for data that does not fit into memory
svd            `svd`: the truncated singular value decomposition of the interaction matrix
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
