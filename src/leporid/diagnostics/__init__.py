"""What embeddings look like: spectra, norms by degree, neighbours, movement, a map.

inspection  Everything `leporid inspect` shows, gathered in one place
measures    Numbers that say what an embedding holds, and what training did to it
page        One self-contained HTML page: numbers, tables and inline pictures, nothing loaded from a
pictures    The diagnostics as pictures (matplotlib, from the extra `plots`)
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
