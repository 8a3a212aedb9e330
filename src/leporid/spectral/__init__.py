"""From a graph to vectors: Laplacians, eigensolvers, `Leporid` and `LaplacianEigenmaps`.

Any `leporid.graph.Graph` will do, in this process or elsewhere.

eigenpairs  `laplacian_eigenpairs`: checks, the choice of a solver, LAPACK, warnings
estimators  `Leporid` and `LaplacianEigenmaps`, with scikit-learn's interface, and their folders
extension   landmarks and out-of-sample extension, of eigenvectors and of a trained table
gpu         Lanczos on a torch device
lanczos     block Lanczos with thick restart, its dense algebra, the float64 check
laplacian   degrees, popularity regularisation, the operator and its product with a block
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
