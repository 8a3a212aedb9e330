"""From a raw log to `Interactions` and `Split`; external ids stop here.

columns         Which column is the user, the item, the time and the rating: by name, or by place
core_filter     The k-core: only users and items that are seen often enough to learn from
datasets        The data sets of the paper (and two MovieLens siblings) by name, kept in a cache dir
download        Downloads that resume: bytes already here are not asked for again, and only whole fi
id_map          External ids stop here: inside the library everything is a contiguous int
interactions    `Interactions`: who touched what, in which order. The type every other room starts f
item_titles     Titles and genres of items, for people who read recommendations
loading         `load`: any log of interactions, from anywhere, as `Interactions`
parquet_stream  Parquet files read a batch at a time: the ids they hold, then their pairs as codes
policies        What happens to the rows real logs hold: every one is kept, or left out and counted
raw             `RawTable`: the columns of a source before any policy, and the record of how they we
readers         Everything that is not delimited text: parquet, frames, and sparse matrices
recovery        How much of a planted geometry an embedding has recovered
split           `Split`: train, validation and test parts that share their id maps
splitting       Three ways to hold out the future: per user by share, per user by one, and by the cl
stats           The columns of the paper's Table 1
stored          `store_interactions`: a log larger than memory becomes a binary matrix on disk
synthetic       Synthetic logs whose geometry is known, so that its recovery can be scored
synthetic_walk  The kernel of the synthetic generator: one user's path, one item after the other
text_files      Delimited text, plain or gzip, through pyarrow's CSV reader: no Python loop over lin
timestamps      Times of any spelling become int64, and keep their order
write           Interactions back into a file, with their external ids
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
