"""Tables, figures and the report of the KDD'21 paper, with its printed values beside ours.

claims.toml  The paper's claims, our sentences about them, and the comparisons behind both
figures      The figures and the bars of the report, drawn with matplotlib (the extra 'plots')
grids/       The runs behind each table as experiment files, and what `--quick` changes
outputs      From records to files: every table and figure, and the report around them
render       A table as Markdown, CSV, LaTeX or HTML
report       One self-contained HTML page: tables, plots with intervals, significance
reproduce    Which grids a table needs, ready to run
simulations  The data of Figures 1 and 2
tables       `PaperTable`: our values beside the printed ones (`paper_values.json`)
templates/   Jinja templates of the report and of a table in each format
time_cost    The paper's paragraph on time: our eigensolver beside the one it used
verdict      The claims judged by the records, and what a repetition alone changes: docs/verdict.md
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
