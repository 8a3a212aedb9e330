"""DLR2, Dual-Loss Residual Recommendation: the paper's own model (section 4).

model    `DLR2`: losses, scores, and lists in two stages
network  `DLR2Config`, the Feature Network (four designs), the heads S and G, and the tables
recipes  the recipes, and what `general` changes by the kind of log
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
