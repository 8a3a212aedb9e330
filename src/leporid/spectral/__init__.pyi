from .eigenpairs import Eigenpairs as Eigenpairs
from .eigenpairs import laplacian_eigenpairs as laplacian_eigenpairs
from .embedding import Embedding as Embedding
from .embedding import standardize as standardize
from .estimators import LaplacianEigenmaps as LaplacianEigenmaps
from .estimators import Leporid as Leporid
from .laplacian import laplacian_operator as laplacian_operator
from .laplacian import regularized_degrees as regularized_degrees
