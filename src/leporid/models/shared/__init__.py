"""What several models share. Public names are exported by `leporid.models`.

catalogue            the names of the models, the recipe `general`, the kinds of log
cold_start           how items that training has not seen are scored: scale, content, share
extension            `Extension`: rows for new items and users in the tables of a trained model
fitting              `Fitting`: how a model was fitted, and what it takes to fit it again
layers               dropout, causal attention, products with the user-item graph
lists                from questions in external ids to ranked lists, similar items and reasons
losses               BPR, and softmax over all items, with their gradients in closed form
neural               `NeuralRecommender`: build, train, score and extend a network
neural_kinds         `DotProduct`, `UserTableRecommender`, `GraphRecommender`
profiles             `ProfileRecommender`, `ItemWeights`: models that score from training rows
recommendation_file  the lists of all users into one file
recommender          `Recommender`: the one interface of every model
saved                a model as a folder, and `FittedArray`: what is in it
sparse               compiled products of sparse matrices, parallel over rows
tables               `BuildContext`: embedding tables, the size of initial embeddings, held rows
train                `train`: a model by name, an initialiser by name, a split; a fitted model
"""
