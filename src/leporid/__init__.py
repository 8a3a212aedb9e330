"""leporid: where should your embeddings start?

Manifold-informed starting vectors for recommenders (LEPORID, KDD 2021), the recommenders that
start from them, and the evaluation that says whether it helped.

Public names are listed in `__init__.pyi` and loaded on first use, so `import leporid` stays light.
The packages, bottom to top: data, graph, spectral, initializers, evaluation, training, models,
experiments, selection; and the ways out: interop, serve, distributed,
diagnostics, cli, demo. ARCHITECTURE.md walks one interaction through them.
"""

import lazy_loader

from leporid._deprecated import deprecated_names

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
deprecated_names(__name__, {"rehearsal": "leporid.inner_validation_split"})
