"""What every package stands on: settings, files, progress, the machine; nothing of recommenders.

arguments     `checks_arguments`: public functions refuse values of the wrong kind
artifacts     Arrays and JSON as files, with digests that are verified when read
atomic        A file or folder is complete or absent, whenever a process dies
compiled      `kernel`: how loops are compiled; random numbers inside them
config        `Config`: settings that refuse unknown keys, wrong types and values out of range
hashing       Short digests that name results
html          Pages, tables and charts of reports
interruption  Ctrl-C and SIGTERM: the first ends long work in order, the second at once
machine       Threads, free memory, devices, versions
progress      Progress of long work on stderr
registry      `Registry`: names of classes, resolved on first use
search_space  What may be tried for each setting of a model
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
