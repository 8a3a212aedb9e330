"""What several models share. Public names are exported by `leporid.models`.

all_items_loss       cross-entropy over all items and its gradient, in closed form
base                 `Recommender`: the one interface of every model; fitting, saving
build_context        `BuildContext`: what a network is built from, and its tables
catalogue            the names of the models, resolved when they are asked for
content_neighbours   `ContentNeighbours`: items like those of a history, by content alone
dot_product          `DotProduct`: neural models that rank by products of two vectors
newcomers            how items that no training has seen are scored: scale, content, exposure
fitting              `train`: a model by name, an initialiser by name, a split; a fitted model
graph_propagation    products with the user-item graph: a constant CSR matrix, and along its edges
growing              `grow`: rows for new items and users in the tables of a trained model
item_neighbours      `ItemNeighbours`: items that share their users, for similar items and reasons
neighbourhood        settings and neighbour search of UserKNN and ItemKNN
log_kinds            kinds of log the recipe `general` tells apart, by their numbers
masks                dropout that does not wait for random numbers on a CPU
neural               `NeuralRecommender`: build, train and score a network
profiles             `ProfileRecommender`, `ItemWeights`: models that score from training rows
ranking_loss         the pairwise BPR loss and its gradient, in closed form
refitting            `Fitting`: how a model was fitted; `refit`: again, on everything; `continued`
recommendation_file  the lists of all users into one file, streamed and resumable
recommending         `Recommending`: what a model is asked: lists, frames, similar items, reasons
row_limits           how far training may move rows from their initial vectors
sparse               compiled products of sparse matrices, parallel over rows
saved                a model as a folder: found, written, checked when it is read; its vectors
start_size           initial vectors as tables take them: standardised and of the right size
user_table           `UserTableRecommender`, `GraphRecommender`: models that know people by a row
"""
