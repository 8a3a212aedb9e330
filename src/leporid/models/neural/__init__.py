"""Models that are trained step by step, and what they share.

base         `NeuralRecommender`: build, train, score and extend a network
bpr          Matrix factorisation with the BPR criterion
checkpoints  Checkpoints; `TrainingHistory`: one row per log point; `Callback`
cold_items   How items that training has not seen are scored: scale, content, share
dgcf         DGCF: one graph per intent, weighted by routing
dlr2/        DLR2, the paper's own model: network, losses and two-stage ranking
graph        `GraphRecommender`, and products with the user-item graph
hgn          HGN: gates that choose features and items of the recent past
layers       Dropout, causal attention, and the losses: BPR, softmax over all items
lightgcn     LightGCN: graph convolution with nothing but the neighbourhood average
linear_part  `LinearPart`: SLIM beside a network, and the weight that validation chooses
ncf          NCF: NeuMF, a product tower and a perceptron tower
new_items    `extended`: rows for new items and users in the tables of a trained model
ngcf         NGCF: graph convolution with feature interaction
sampler      `Sampler`: batches as a pure function of (seed, step); windows, negative items
sasrec       SASRec: causal self-attention over the sequence of a user
settings     `TrainingConfig`, the learning rate, device, precision, seeds
tables       `BuildContext`: embedding tables, initial size, features, held rows
trainer      `train_loop`: the training loop, one page; `Trainable`: what it needs of a model
"""
