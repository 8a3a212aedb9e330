"""From a graph to vectors: Laplacians, eigensolvers, `Leporid` and `LaplacianEigenmaps`.

`laplacian_eigenpairs` is the function, the estimators remember what it returns and place rows
that were not in the fit. Graphs come from below, in this process or elsewhere: all that is asked
of one is `leporid.graph.Graph`.

alignment   new eigenvectors with the signs and in the coordinates of old ones
eigenpairs  `laplacian_eigenpairs`: checks, the choice of a solver, warnings
embedding   `Embedding`, one vector per row with its provenance; `standardize`
estimators  `Leporid` and `LaplacianEigenmaps`, in the manner of scikit-learn; their files
extension   new rows without a refit, among eigenvectors or in a trained table
gpu         Lanczos on a torch device
inputs      any matrix becomes interactions or a graph, or a clear error
lanczos     block Lanczos with thick restart
landmarks   which rows to fit when not all are, and with how many neighbours
laplacian   degrees, popularity regularisation, the operator and its product with a block
panels      the dense algebra of Lanczos in memory
saved       the folder of a fitted estimator, checked when it is read
solvers     the problem, its eigenpairs, the float64 check, LAPACK and ARPACK
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
