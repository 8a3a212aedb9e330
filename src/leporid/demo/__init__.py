"""LEPORID against a random start on MovieLens-100K, in about a minute.

companions  Twenty famous films, the films that obviously go with them, and which lists have those
page        `write_page`: the results as one HTML page, with plots, a map of the films, and one user
stages      `run_demo`: the stages of `leporid demo`, in the order they run
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
