"""Measures of embeddings (`leporid inspect`), and a check of the installation (`doctor`).

doctor      `examine`: versions, machine, extras, and a self-test of the kernels
inspection  Spectrum, norms, neighbours, and how far training moved each row
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
