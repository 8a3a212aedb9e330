"""The catalogue of recommenders: one file per model, each opening with the equations it follows.

`available`, `get` and `register` name them, `train` fits one by name, `Recommender` is what they
all are: `fit`, `recommend`, `recommend_history`, `save`, `load`. To add one, write a file here and
name it in `shared/catalogue.py`.

blend      Blend: several models as one, their rankings averaged
bpr        Matrix factorisation with the BPR criterion
dgcf       DGCF: one graph per intent, weighted by routing
dlr2/      DLR2, the paper's own model: network, losses and two-stage ranking
ease       EASE: a linear item-to-item model with a closed form (Steck, WWW 2019)
frequency  Frequency: what a user had often and lately, again
gfcf       GF-CF: a linear and an ideal low-pass filter of the item graph (Shen et al., CIKM 2021)
hgn        HGN: gates that choose features and items of the recent past
ials       iALS: implicit-feedback matrix factorisation by alternating least squares
itemknn    ItemKNN: items whose users are most like those of the items in a profile
lightgcn   LightGCN: graph convolution with nothing but the neighbourhood average
ncf        NCF: NeuMF, a product tower and a perceptron tower
ngcf       NGCF: graph convolution with feature interaction
p3alpha    P3alpha: a random walk item -> user -> item (Cooper et al., WWW 2014)
recent     Recent: the same list for everyone, the most popular items of the last days
rp3beta    RP3beta: P3alpha with popular targets held back (Paudel et al., TiiS 2017)
sasrec     SASRec: causal self-attention over the sequence of a user
shared/    base classes, the catalogue, and the products and losses that several models share
slim       SLIM: a sparse linear item-to-item model by elastic net (Ning and Karypis, ICDM 2011)
toppop     TopPop: the same list for everyone, the items with the most training interactions
turbocf    Turbo-CF: polynomial low-pass filters of the item graph (Park et al., SIGIR 2024)
userknn    UserKNN: what the most similar users have, weighted by how similar they are
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
