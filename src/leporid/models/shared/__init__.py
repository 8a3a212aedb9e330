"""What several models share. Public names are exported by `leporid.models`.

catalogue    the names of the models, the recipe `general`
cold_start   how items that training has not seen are scored: scale, content, share
extension    `extended`: rows for new items and users in the tables of a trained model
graph        `GraphRecommender`, and products with the user-item graph
layers       dropout, causal attention, and the losses: BPR, softmax over all items
linear_part  `LinearPart`: SLIM beside a network, and the gain that validation chooses
lists        from questions in external ids to ranked lists, similar items and reasons
neural       `NeuralRecommender`: build, train, score and extend a network
profiles     `ProfileRecommender`, `ItemWeights`: models that score from training rows, and products
recommender  `Recommender`: the one interface of every model
saved        `FittedArray`, `Fitting`: what a model has learnt and how; a model as a folder
tables       `BuildContext`: embedding tables, initial size, features, held rows
train        `train`: a model by name, an initialiser by name, a split; a fitted model
"""
