"""The command line: arguments and words only, every command a thin call into the library.

app           The `leporid` command, and how errors reach the terminal
options       Options that several commands share, and what they stand for
output        How commands speak: tables for people, JSON for machines
choose        `leporid choose`: which model and start, within a time, ending in a run to deploy
compare       `leporid compare`: runs side by side, with intervals and paired tests
data          `leporid data`: look at a log, split it, fetch one, make one
demo          `leporid demo`: LEPORID against a random start, in a few minutes
doctor        `leporid doctor`: what is installed, and whether the kernels work
embed         `leporid embed`: an interaction log in, starting vectors with ids out
evaluate      `leporid evaluate`: a model, or recommendations from elsewhere, against held-out data
export        `leporid export`: embeddings in another format, or a model into another system
initializers  `leporid initializers`: the ways to start, with their settings
extend        `leporid extend`: rows for new items and users in a trained model
inspect       `leporid inspect`: what an embedding holds, and what training did to it
models        `leporid models`: the models, what each takes and can do
recommend     `leporid recommend`: lists from a saved model, similar items, files for all users
run           `leporid run`: an experiment grid from a TOML file
serve         `leporid serve`: a trained run as a service, and a page to look at it
train         `leporid train`: an interaction log in, a fitted model and its record out
tune          `leporid tune`: settings that do best on validation
"""

__all__ = ["main"]


def main() -> None:
    """Entry point of the `leporid` command."""
    from leporid.cli.app import run

    run()
