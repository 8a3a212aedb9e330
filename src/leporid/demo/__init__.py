"""DLR2 from LEPORID and from random initial embeddings on MovieLens-100K, in about a minute.

stages  `run_demo`: the stages of `leporid demo`; `write_page`: their results as an HTML page
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
