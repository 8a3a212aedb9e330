"""The command line: arguments and printing only, every command a thin call into the library.

app          The `leporid` command, and how errors reach the terminal
options      Options that several commands share; tables and JSON that they print
catalogue    `leporid models`, `initializers`, `doctor`: what there is, and what is installed
choose       `leporid choose`: the best model and initialisation for a log within a time budget
data         `leporid data`: describe a log, split it, fetch one, make one
deploy       `leporid recommend`, `extend`, `export`, `serve`: what a trained model is for
experiments  `leporid evaluate`, `compare`, `tune`, `run`: held-out data, best settings, grids
inspect      `leporid inspect`: facts about embeddings, and what they alone predict
train        `leporid embed`, `train`: an interaction log in, vectors or a tested model out
"""

__all__ = ["main"]


def main() -> None:
    """Entry point of the `leporid` command."""
    from leporid.cli.app import run

    run()
