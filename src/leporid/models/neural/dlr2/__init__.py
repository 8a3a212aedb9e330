"""DLR2, Dual-Loss Residual Recommendation: the paper's own model (section 4).

config           `DLR2Config`: the settings
feature_network  The Feature Network in its four designs
heads            The heads S and G
model            `DLR2`: losses and scores
network          `DLR2Network`: the tables, the Feature Network and the heads
recipes          The recipes, and what `general` changes by the kind of log
two_stages       Lists in two stages: scores estimated from anchors, then computed
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
