"""From a raw log to `Interactions` and `Split`; external ids stop here.

`load` reads a log, `Interactions.core` filters it, `split_by` holds out its future. Logs larger
than memory go through `store_interactions`, by the same policies.

arrays        Names for the types of NumPy arrays
cells         Cells of Arrow columns: text without white space around it, nulls, numbers
codes         Ids and kinds of events as small integers, and the `IdMap` of the ids that occur
columns       Which column is the user, the item, the time, the rating; the table of those columns
datasets      The data sets of the paper (and two MovieLens siblings) by name, kept in a cache
delimited     Delimited text: its separator, header and quotes, and the table in it
event_kinds   What the kinds of events mean: their weights, which are targets, what is disliked
features      `item_features`: one row of numbers per item from the columns of an item table
files         Files, pipes and addresses such as s3://
frames        Tables in memory: frames, Arrow tables and columns by name, to Arrow and back
id_columns    Ids in the columns of a frame, as they were given and as indices
id_files      `read_ids`: a list of ids from a text file or from a column of a table
id_map        `IdMap`: external ids to contiguous indices and back, also through a file
interactions  `Interactions`: which user chose which item, in order; targets and disliked items
item_table    `ItemTable`: what is known of items; titles, genres, and items by a column
json_lines    JSON lines: one object per line, whose values are columns
k_core        Only users and items that occur often enough, in memory or a block at a time
loading       `load`: files, folders, patterns, frames, matrices, data sets
log_files     The files of a log, one by one or in batches; folders as Spark and Hive write them
policies      Which rows are kept, which are left out and counted
sequences     `Sequences`: the items of each user in time order
split         `Split`, and the protocols: per user by share, by one, at random, by time; cold items
stored        `store_interactions`: a log larger than memory becomes a binary matrix on disk
synthetic     `synthesize`: a seeded log with neighbourhoods, power laws and drift
times         Times in any column, as integers of 64 bits
vector_files  Vectors with their ids, from the files of other tools
writing       `write_log`: interactions, back to a file
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
