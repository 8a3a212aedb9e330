"""Metrics per user, strata, intervals and paired tests of anything that ranks.

bootstrap        Bootstrap over users: means of resampled rows, many columns at once
evaluator        `evaluate`: one full ranking of every candidate, for a model or for lists from else
metric_table     `MetricTable`: one row a user. Means, strata, intervals and exports derive from it
metrics          The metrics, one pure function each
recommendations  Recommendations that came from elsewhere: a file with user, item and score
significance     Is one run better than another on the same users, or was it luck? Paired tests
strata           Named groups of users (by activity) and of items (by popularity), from training cou
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
