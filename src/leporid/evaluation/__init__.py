"""Evaluating anything that ranks: metrics per user, groups of users, comparisons.

A model, a function, an array of scores or lists from a file go in; no model is imported here.

comparison       `Comparison`: is one result better than another? t intervals, seeds, Holm
evaluator        `evaluate`: one full ranking of every candidate, for a model or for lists
hit_files        Hits of each user as bit masks, and files of them: enough to compare
metric_table     `MetricTable`: one row per user, from which means, strata and exports derive
metrics          The metrics, one pure function each
probe            `probe`: how well vectors alone predict held-out items
recommendations  `Recommendations`: lists that came from elsewhere, as rows of external ids
scorers          What `evaluate` can take, and one function from users to scores of any of it
strata           Groups of users and items that metrics are asked of
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
