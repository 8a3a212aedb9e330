"""From scores to lists: the best items, rules for them, and the reasons behind them.

bound_rules   `BoundRules`: rules as arrays over the items of one model, and the ranking under them
explanations  `ItemNeighbours`: similar items, and the items of a history that explain another one
files         `write_recommendations`: the lists of any number of users in one file
item_columns  `ItemColumns`: what rules read of the items of a model
item_lists    `write_item_lists`: the items that go with each item, or follow it, in one file
lists         External ids in, lists out: as arrays, as frames, chunk by chunk
rules         `Rules` for lists: filters, caps, diversity, boosts, slots
top_k         `TopK`: the best n items per row of scores, masked
unsupported   Errors of models that cannot do what is asked
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
