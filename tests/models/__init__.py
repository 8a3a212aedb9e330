"""Tests of the models.

tests/test_contract.py         every model: `shared/base`, `shared/catalogue`, `toppop`
tests/test_contract_neural.py  every neural model: `shared/neural`, `shared/user_table`
tests/training/test_train.py   `shared/fitting`

test_classical_filters         `gfcf`, `turbocf`, `shared/sparse`
test_classical_ials            `ials`
test_classical_knn             `userknn`, `itemknn`, `shared/neighbourhood`, `shared/profiles`
test_classical_linear          `slim`, `ease`, `shared/sparse`
test_classical_walks           `p3alpha`, `rp3beta`, `shared/sparse`
test_classical_ml1m            the classical models on MovieLens-1M
test_dlr2                      `dlr2/`, `NewUserRows` of `shared/user_table`
test_dlr2_authors              the recipe `authors` of `dlr2/`
test_graph_propagation         `shared/graph_propagation`
test_newcomers                 `shared/newcomers`, what `shared/growing` gives it
test_ranking_loss              `shared/ranking_loss`
test_recipes                   the recipes of the neural models

The other files have the name of their model.
"""
