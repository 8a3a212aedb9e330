"""From a raw log to `Interactions` and `Split`; external ids stop here.

`load` reads a log, `Interactions.core` filters it, `split_by` holds out its future. Logs larger
than memory go through `store_interactions`, by the same policies.

columns         Which column is the user, the item, the time, the rating; the table of those columns
datasets        The data sets of the paper (and two MovieLens siblings) by name, kept in a cache
download        Downloads: checked, tried again where they break off, kept only if whole
id_file         `read_ids`: a list of ids from a text file or from a column of a table
id_map          `IdMap`: external ids to contiguous indices and back, also through a file
interactions    `Interactions` (who touched what, in which order), `Sequences`, `DatasetStats`
item_columns    What is known of the items: columns of a table, or vectors, by id
item_titles     Titles and genres of items, for people who read recommendations; items by genre
k_core          Only users and items that occur often enough, in memory or a block at a time
loading         `load`: files, folders, frames, sparse matrices and data sets by name
log_parts       The files of a log: one, or a folder as Spark writes it, with its partitions
parquet_files   Parquet, whole or a batch at a time
policies        Which rows are kept, which are left out and counted; values become ids
quoting         Where rows begin and quotes close in text, byte by byte
repeats         `duplicates=`: what becomes of a pair that occurs again; which event is the first
source_file     The door of every file, also at s3://; what goes wrong is a `DataError`
split           `Split`: train, validation and test parts that share their id maps
splitting       The protocols: per user by share, by one, at random, by the clock; cold items
stored          `store_interactions`: a log larger than memory becomes a binary matrix on disk
synthetic       Logs whose geometry is known, and how much of it an embedding recovers
synthetic_walk  The kernel of the generator: one user's path, one item after the other
text_files      Delimited text, plain or gzip, through pyarrow's CSV reader
text_logs       Logs in delimited text, whole or some megabytes at a time
timestamps      Times of any spelling become int64 and keep their order
vector_files    Vectors with their ids, from the files of other tools
write           Interactions back into a file, with their external ids
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
