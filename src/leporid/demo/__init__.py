"""LEPORID against a random start on MovieLens-100K, in about a minute.

page    The demonstration as one HTML page: the table, two plots, a map of the films, one user
stages  The stages of `leporid demo`, one function each, in the order they run
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
