"""Choosing settings on validation, with the same budget for every model.

ledger  The budget of a study that may be killed, resumed, and shared by several processes
study   `tune`: search the settings of a model with Optuna, over the space it declares
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
