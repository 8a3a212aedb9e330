"""From scores to lists: the best items, rules for them, and the reasons behind them.

allowed       `Allowed`: which items may be recommended, to everybody or to each user
asked_users   `AskedUsers`: whom somebody wants lists for, and which of them a model knows
bound_rules   `BoundRules`: rules as arrays over the items of one model, and the ranking under them
explanations  `ItemNeighbours`: similar items, and the items of a history that explain another one
files         `write_recommendations`: the lists of any number of users in one file
ids           Ids that somebody gives: one or several, and histories
item_columns  `ItemColumns`: what rules read of the items of a model
item_lists    `write_item_lists`: the items that go with each item, or follow it, in one file
lists         Lists of known and unknown users: as arrays, as frames, chunk by chunk
pairs         `score_frame`: the scores of pairs of users and items
rules         `Rules` for lists: filters, caps, diversity, boosts, slots
top_k         `TopK`: the best n items per row of scores, masked
unsupported   Errors of models that cannot do what is asked
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
