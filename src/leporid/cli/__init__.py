"""The command line: arguments and printing only, every command a thin call into the library.

app        The `leporid` command, and how errors reach the terminal
options    Options that several commands share, and how they are parsed
output     Tables on the terminal, or JSON
catalogue  `leporid models`, `initializers`, `doctor`: what there is, and what is installed
choose     `leporid choose`: the best model and initialisation for a log within a time budget
compare    `leporid compare`: runs side by side, with intervals and paired tests
data       `leporid data`: describe a log, split it, fetch one, make one
demo       `leporid demo`: LEPORID against random initial embeddings, in a few minutes
embed      `leporid embed`: an interaction log in, initial embeddings with ids out
evaluate   `leporid evaluate`: a model, or recommendations made elsewhere, on held-out data
export     `leporid export`: embeddings in another format, or a model into another system
extend     `leporid extend`: rows for new items and users in a trained model
inspect    `leporid inspect`: measures of embeddings, and how training changed them
recommend  `leporid recommend`: lists from a saved model, similar items, files for all users
run        `leporid run`: an experiment grid from a TOML file
serve      `leporid serve`: a trained run as a service with a page
train      `leporid train`: an interaction log in, a fitted model and its record out
tune       `leporid tune`: settings that do best on validation
"""

__all__ = ["main"]


def main() -> None:
    """Entry point of the `leporid` command."""
    from leporid.cli.app import run

    run()
