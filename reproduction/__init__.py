"""The KDD'21 paper reproduced with leporid: tables, figures, claims, and a leaderboard of logs.

`python -m reproduction` lists what it makes. Not part of the installed package: it runs in a clone
of the repository, on the public API of `leporid` and the records in `results/`.

__main__           The command line
activity           How active each tested user is, for comparisons of tail users
audit/             `python -m reproduction.audit`: every number of the pages by code of its own
check_outcomes     Fails where a commit changes a file of outcomes per user (`make lint`)
claims.toml        The paper's claims, our sentences about them, and the comparisons behind both
confirmed_baselines  `confirm-classical`: the best recorded trials on all validation users
default_ratios     Defaults of classical models beside the best settings tried, each log left out
figures            The paper's figures, drawn with matplotlib (the extra 'plots')
gains              The gain of one group of runs over another, over users and seeds
general_rules      `general-rules`: the rules of the recipe `general`, each log left out once
global_time        One date for all users: every model trained before it and tested after it
grids/             The runs behind each table and the leaderboard, and what `--quick` changes
initialisation-study.toml  The cells of the study of initialisations, in their order
initialisation_study  The study: what an initialisation is worth (docs/initialisation-study.md)
leaderboard        Every model on every log of an experiment: ranks, gains, docs/leaderboard.md
leave_last_out     The last item held out: what each change of a sequence model does
old_records        Packed records of earlier versions, read in their present form
outputs            From records to files: every table and figure, and the report around them
paper_values.json  The numbers the paper prints
ranks              Mean ranks over logs, and by how much they must differ
remarks            The numbers in the remarks of docs/verdict.md
render             A table as Markdown, CSV, LaTeX or HTML
report             Sections of the HTML report: tables with intervals, significance, training
sequence_tables    `sequence-settings`: what one change does to SASRec and HGN on validation
simulations        The data of Figures 1 and 2
specs              The grids that a table or figure needs
store              `PackedResults`: the records and outcomes per user of the repository
study_cells        One cell of the study: data, initial embeddings, run, record
study_runner       Its cells on several processes, until the time is over
study_tables       Its records in `results/`, compared: the tables of docs/initialisation.md
tables             `PaperTable`: our values beside the printed ones
templates/         Jinja templates of the pages and of a table in each format
time_cost          The paper's paragraph on time: our eigensolver beside the one it used
tuned_baselines    `tune-classical`: classical models, tuned alike and tested once
two_tower          A model with frozen vectors and a linear map on each side
verdict            The claims evaluated on the records: docs/verdict.md
"""
