"""leporid: where should your embeddings start?

Manifold-informed initial embeddings for recommenders (LEPORID, KDD 2021), the recommenders that
use them, and the evaluation that says whether it helped.

Public names are listed in `__init__.pyi` and loaded on first use, so `import leporid` stays light.
The packages, bottom to top: data, graph, distributed, ranking, evaluation, embeddings, models,
runs, selection, then interop, serve and diagnostics, cli. ARCHITECTURE.md follows one interaction
through them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
