"""What embeddings look like, and whether this installation works.

doctor      `examine`: versions, machine, caches, extras, and a self-test of the kernels
inspection  `inspect_embeddings`: everything `leporid inspect` shows, gathered in one place
measures    Numbers that say what an embedding holds, and what training did to it
pictures    The measures as pictures (matplotlib, from the extra `plots`)
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
