"""Initial embeddings: interactions in, one vector for each user and each item out.

`initial_embeddings` fits a method by name. `Leporid` and `LaplacianEigenmaps` are the same methods
with scikit-learn's interface, for any `leporid.graph.Graph`.

arrays         Names of the array types of the signatures
base           `Initializer` and the settings every initialiser has
bpr            `bpr`: matrix factorisation trained to rank a user's items above the others
content        `content`: item vectors from a table about the items
eigenpairs     `laplacian_eigenpairs`: checks, the choice of a solver, LAPACK, warnings
estimators     `Leporid` and `LaplacianEigenmaps`
fit            `initial_embeddings` and `EmbeddingSpec`: fits by name, and the cache
graph_bert     `graph_bert`: attention over a node's intimate nodes, found by PageRank
isolated       Users and items of which nothing is known: rows of zeros
lanczos        Block Lanczos with thick restart, its dense algebra, the float64 check
lanczos_gpu    Lanczos on a torch device
landmarks      The rows that a spectral fit is made on, where it does not take all
laplacian      Degrees, popularity regularisation, the operator and its product with a block
leporid        `le` and `leporid`: Laplacian eigenmaps of users and of items
leporid_content  `leporid_content`: `leporid`, with content edges for items with few interactions
netmf          `netmf`: DeepWalk as matrix factorisation, on the user and the item kNN graphs
node2vec       `node2vec`: random walks on the bipartite user-item graph, then skip-gram
out_of_sample  Out-of-sample extension of eigenvectors to new rows
probe          The choice of settings of `leporid` by a probe inside the training data
random         `random`: independent normal numbers
registry       The names of the methods, resolved on first use
row_norm       The lengths of the rows of `leporid`
saved          The folder in which a fitted estimator is saved
scaling        The scaling of initial vectors before a model trains them
streaming      `embed_stored`: `le` and `leporid` for data that does not fit into memory
svd            `svd`: the truncated singular value decomposition of the interaction matrix
table_extension  Out-of-sample extension of a trained table to new rows
vectors        `Embedding` and `InitialEmbeddings`: reading, writing, aligning by id
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
