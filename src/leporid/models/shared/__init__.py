"""What several models share.

base               `Recommender`: the one interface of every model, classical or neural
catalogue          The names of the models, resolved when they are asked for
elastic_net        Many elastic nets that share one sparse Gram matrix: coordinate descent on workin
files              External ids of a saved model
fitting            `train`: a model by name, an initialiser by name, a split; a fitted model comes b
graph_propagation  Products with the user-item graph: one constant CSR matrix, and edge-wise product
neighbourhood      What UserKNN and ItemKNN share: their settings, and the search for neighbours
neural             `NeuralRecommender`: what a neural model says of itself; everything else is done
new_users          A row of the user table for people who were not there when it was trained
profiles           What the classical models have in common: they score from the training rows of th
random_walk        Two steps of a random walk on the bipartite graph: from an item over its users to
ranking_kernel     The BPR loss and its gradients on a CPU, one example after another in compiled co
ranking_loss       The pairwise loss several models share, with its gradient written down
sparse             Sparse kernels the classical models share, parallel over rows
trained            The vectors of a saved model, read from its folder without building the model
"""
