"""Choosing settings on validation, with the same budget for every model.

ledger   The budget of a study that may be killed, resumed, and shared by several processes
study    `tune`: search the settings of a model with Optuna, over the space it declares
workers  Who works on a study: how a process that died is told from one that is busy
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
