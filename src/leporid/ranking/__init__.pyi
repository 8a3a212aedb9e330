from .chunks import chunk_rows as chunk_rows
from .masked import NanScoreError as NanScoreError
from .masked import TopK as TopK
from .masked import masked_top_k as masked_top_k
from .masked import masked_top_k_torch as masked_top_k_torch
