"""DLR2 from LEPORID and from random initial embeddings on MovieLens-100K, in about a minute.

page    `write_page`: the results as one HTML page, with a plot and one user
stages  `run_demo`: the stages of `leporid demo`, in the order they run
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
