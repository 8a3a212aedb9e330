"""Models that are trained step by step, and what they share.

base            `NeuralRecommender`: build, train, refit and extend a network
bpr             Matrix factorisation with the BPR criterion
bpr_loss        The BPR loss between rows of tables
checkpoints     The state of a training, and checkpoints of it
closed_form_part  `ClosedFormPart`: SLIM and transitions beside a network
cold_items      How items that training has not seen are scored: scale, content, share
component_weights  The weights of closed-form scores that validation chooses
cuda_graph      `Backward`: the gradients of a step, on a GPU as a recorded CUDA graph
dgcf            DGCF: one graph per intent, weighted by routing
dlr2/           DLR2, the paper's own model: network, losses and two-stage lists
feature_sum     Rows of a table that are sums with the embeddings of their features
graph           `GraphRecommender`, and products with the user-item graph
hgn             HGN: gates that choose features and items of the recent past
layers          Dropout, causal attention, and sparse products
lightgcn        LightGCN: graph convolution with nothing but the neighbourhood average
meta_build      Networks without memory for their weights, to check saved arrays
ncf             NCF: NeuMF, a product tower and a perceptron tower
negatives       `NegativeSampler`: uniform draws among the items a user has not
new_items       New items and users of a trained model: tables, interactions, cold scores
ngcf            NGCF: graph convolution with feature interaction
outlook         `Outlook`: where a training stands, and when it can end
sampler         `Sampler`: batches as a pure function of (seed, step)
sasrec          SASRec: causal self-attention over the sequence of a user
scoring         `NetworkScoring`: how a trained network scores users and items
settings        `TrainingConfig`, the learning rate, device, precision, seeds
softmax_loss    The softmax over all items as a loss
table_growth    `TableGrowth`: rows for new users and items in the tables of a network
tables          `BuildContext`: embedding tables, and the initial size of their rows
trainable       `Trainable`: what the training loop needs of a model
trainer         `train_loop`: the training loop, one page
training_data   `TrainingData`: the training part as tensors
training_log    `TrainingLog`: the history, the progress bar and callbacks
untrained_rows  Rows that never occur in training: frozen, then placed among neighbours
validation      Who validates, which weights are kept, and when to stop early
weights         The weights of a network: as arrays, copied, averaged
"""
