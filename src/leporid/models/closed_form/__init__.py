"""Models that are computed in seconds; each file opens with the equations it follows.

ease            EASE: a linear item-to-item model with a closed form (Steck, WWW 2019)
frequency       Frequency: what a user had often and lately, again
gfcf            GF-CF: two low-pass filters of the item graph (Shen et al., CIKM 2021)
history_window  How much of a history models read, and what having an item adds to its score
ials            iALS: implicit-feedback matrix factorisation by alternating least squares
itemknn         ItemKNN: items whose users are most like those of the items in a profile
p3alpha         P3alpha: a random walk item -> user -> item (Cooper et al., WWW 2014)
products        Compiled products of sparse matrices, parallel over rows
profiles        `ProfileRecommender`, `ItemWeights`: models that score a user from their profile
recent          Recent: the same list for everyone, the most popular items of the last days
rp3beta         RP3beta: P3alpha with popular targets held back (Paudel et al., TiiS 2017)
slim            SLIM: a sparse linear item-to-item model (Ning and Karypis, ICDM 2011)
toppop          TopPop: the same list for everyone, the items with the most training interactions
transitions     Transitions: what users had next, over a few steps (Petrov et al., RecSys 2026)
turbocf         Turbo-CF: polynomial low-pass filters of the item graph (Park et al., SIGIR 2024)
userknn         UserKNN: what the most similar users have, weighted by how similar they are
"""
