"""Laplacians, eigensolvers, `Leporid` and `LaplacianEigenmaps`, and their extension to new rows.

eigenpairs  `laplacian_eigenpairs`: a graph in, the top eigenpairs of its operator out
embedding   `Embedding`: one vector a row, and where it came from
estimators  `Leporid` and `LaplacianEigenmaps`: estimators in the manner of scikit-learn
extension   New rows without a refit: each is placed by its neighbours among the fitted rows
gpu         The same Lanczos on a torch device: cuSPARSE for the product, full-precision matrix prod
inputs      The door of the estimators: any matrix becomes a binary CSR matrix, or a clear error
lanczos     Block Lanczos with thick restart, for the algebraically largest eigenpairs
landmarks   Landmarks: fit on some rows, place all the others by the out-of-sample formula
laplacian   Degrees, popularity regularisation, and the operator whose top eigenvectors are wanted
panels      Dense algebra on a tall basis, row panel by row panel, from numba's own threads
parameters  Parameters the way scikit-learn's `clone` and pipelines expect them, without scikit-lear
refresh     `refresh`: the embedding of a log that has grown, from the embedding it had
saved       Fitted estimators on disk: `spectral.safetensors` beside `spectral.json`, never a pickle
solvers     What every solver hands back, the float64 check, and the two solvers that are not ours
spmm        The sparse x block product: 16 columns at a time, row-parallel
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
