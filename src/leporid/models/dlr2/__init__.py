"""DLR2, Dual-Loss Residual Recommendation: the paper's own model (section 4).

config      `DLR2Config`: its settings, and the recipes
features    the Feature Network: (user, last items) in, one state vector out; four designs
heads       S judges an item, G says what the next item looks like; L_S and L_G with margins
model       `DLR2`: losses and scores
two_stages  S is estimated from a few items, and only the best get their score
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
