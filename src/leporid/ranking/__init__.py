"""From scores to ranked lists, for models, evaluation and the service alike.

chunks  How many users to score at once: the one rule
masked  `TopK`: the best n items of each row of scores, without those seen, ties to the smaller
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
