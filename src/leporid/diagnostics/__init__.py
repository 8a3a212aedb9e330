"""A check of the installation (`leporid doctor`).

doctor  `examine`: versions, machine, extras, and a self-test of the kernels
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
