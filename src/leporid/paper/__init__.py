"""Tables, figures and the report of the KDD'21 paper.

embedding_change    Figure 2 of the paper: nodes with few edges move most when one edge is added
figures             The paper's figures, drawn with matplotlib (the extra 'plots')
le_dimensions       Figure 1 of the paper: the first Laplacian Eigenmaps dimensions drawn on a graph
outputs             From records to files: every table and figure of the paper, and the report aroun
printed             The figures the paper prints, as data, under the names this library uses
render              A table as Markdown, CSV, LaTeX (booktabs; best bold, second underlined) or HTML
report              One self-contained HTML page: tables, plots with intervals, tail users, signific
reproduce           The paper's tables and sensitivity figures as experiment specs, ready to run
significance_marks  Paired tests between the runs of a table: is the best really better than the res
tables              The paper's tables from our records: our value, the printed one, and the differe
time_cost           The paper's time-cost paragraph, measured here: our solver beside the one it use
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
