from .outputs import paper_table as paper_table
from .outputs import write_outputs as write_outputs
from .tables import PaperTable as PaperTable
from .tables import build_table as build_table
from .tables import read_records as read_records
