"""From scores to ranked lists: masks, chunks and `TopK`.

chunks  How many users to score at once
masked  From scores to ranked lists: masked top-n, ties to the smaller item index
topk    `TopK`: ranked lists of item indices, and the one function that makes them from scores
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
