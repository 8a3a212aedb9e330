"""The ways to start: one file each, one registry, one `start`.

base              `Initializer`: training interactions in, starting vectors for users and items out
bpr               `bpr`: matrix factorisation trained to rank a user's items above the others
cache             Fitted initialisers on disk, found again by what made them
catalogue         The names of the initialisers, resolved when they are asked for
graph_bert        `graph_bert`: attention over each node's most intimate nodes, pre-trained to recov
graph_bert_model  The transformer of `graph_bert` and its loss
intimacy          PageRank intimacy: which nodes a random walk from a node, sent home with chance al
le                `le`: Laplacian Eigenmaps of the user and the item KNN graphs (Eq. 4 of the paper)
leporid           `leporid`: eigenmaps with popularity regularisation (Eq. 8 of the paper)
log_operator      The matrix log max(1, L S L^T) without forming it, and its leading singular vector
netmf             `netmf`: DeepWalk as matrix factorisation, on the user and the item KNN graphs
node2vec          `node2vec`: random walks on the bipartite user-item graph, then skip-gram
out_of_core       `embed_stored`: LE and LEPORID vectors of a log that does not fit into memory
random            `random`: the usual start, N(0, 0.01^2), that every other initialiser is compared
skipgram          Skip-gram with negative sampling over random walks, compiled, parallel and determi
sorted_rows       Rows of ascending indices in CSR form, as the kernels of this room read them
spectral_sides    What `le` and `leporid` share: one spectral estimator for the users, one for the i
svd               `svd`: the truncated singular value decomposition of the interaction matrix
walks             Second-order random walks (node2vec) in compiled code
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
