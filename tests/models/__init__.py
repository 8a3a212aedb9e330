"""Tests of the models.

tests/test_contract.py         every model: `shared/recommender`, `shared/catalogue`, `toppop`
tests/test_contract_neural.py  every neural model: `shared/neural`, `shared/neural_kinds`

test_bpr_loss, test_softmax_loss     `shared/layers`
test_classical_filters               `gfcf`, `turbocf`, `shared/profiles`
test_classical_ials                  `ials`
test_classical_knn                   `userknn`, `itemknn`, `shared/profiles`
test_classical_linear                `slim`, `ease`, `shared/profiles`
test_classical_walks                 `p3alpha`, `rp3beta`, `shared/profiles`
test_classical_ml1m                  the classical models on MovieLens-1M
test_cold_start                      `shared/cold_start`, what `shared/extension` gives it
test_dlr2                            `dlr2/`, the rows of new users
test_dlr2_authors                    the recipe `authors` of `dlr2/`
test_dropout, test_graph_layers      `shared/layers`
test_extension                       `shared/extension`
test_init_size, test_row_limits      `shared/tables`
test_recipes                         the recipes of the neural models

The other files have the name of their model.
"""
