"""What initial embeddings do, on MovieLens-100K: the five parts of `leporid demo`.

stages     `run_demo`: runs them; `two_towers`: part 2
two_tower  the PyTorch model of part 2
page       `sentences`, `headline` and `write_page`: the result in words and as HTML
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
