"""Embeddings on many machines, through Dask (`leporid[distributed]`).

`Leporid(...).fit(X, client=client)` and `leporid embed --scheduler tcp://host:port` lead here.
Every file imports Dask only when it is used.
"""
