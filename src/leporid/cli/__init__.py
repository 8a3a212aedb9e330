"""The command line: arguments and printing only, every command a thin call into the library.

app          The `leporid` command, and how errors reach the terminal
choose       `leporid choose`: the best model and initialisation for a log within a time budget
compare      `leporid compare`: runs side by side, and whether they differ by more than chance
data         `leporid data`: describe a log, split it, fetch one, make one
doctor       `leporid doctor`: versions, devices, threads, extras, and a self-test
embed        `leporid embed`: an interaction log in, initial embeddings out
evaluate     `leporid evaluate`: metrics of a model or of given lists, and what rules cost
experiments  `leporid tune` and `run`: the best settings of a model, and grids of models
export       `leporid export`: vectors in another format, or a model in another system
extend       `leporid extend`: rows for the items and users that a model does not know
inspect      `leporid inspect`: facts about embeddings, and what they alone predict
options      Options that several commands share, and how they are parsed
printing     What commands print: lines and tables for people, JSON for machines
recommend    `leporid recommend`: ranked lists, similar items and reasons
registries   `leporid models` and `leporid initializers`: what there is, and its settings
serve        `leporid serve`: the recommendations of a run over HTTP
train        `leporid train`: an interaction log in, a tested model out
"""

__all__ = ["main"]


def main() -> None:
    """Run the `leporid` command."""
    from leporid.cli.app import run

    run()
