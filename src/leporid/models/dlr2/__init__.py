"""DLR2, Dual-Loss Residual Recommendation: the paper's own model (section 4).

config    Settings of DLR2 and its two recipes
features  The Feature Network of DLR2: (user, last items) in, one state vector out
heads     The two heads of DLR2: S judges an item, G says what the next item looks like
model     `dlr2`: Dual-Loss Residual Recommendation, the paper's own model (section 4)
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
