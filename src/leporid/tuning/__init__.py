"""Choosing settings on validation, with the same budget for every model.

ledger  The budget of a study that may be killed, resumed, and shared by several processes
study   `tune`: the settings of a model that do best on validation, found with Optuna
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
