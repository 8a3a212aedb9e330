"""Which model and initialisation for a log: a search within a budget of time, ending in a run.

Candidates are evaluated on an inner validation split, in rungs of more and more users and steps. A
journal makes a killed search go on; the time for the final fits is kept from the beginning.

answer             What a session works with, what it fitted, what a folder already holds
blending           Which finished candidates make a blend that is above the best of them
budget             Durations, the timer of a budget, and the guard that stops work at a deadline
candidates         The problem, candidates in their order, variants of their settings, trials
choice             `choose` and its answer
decision           Which candidate: the best value, a faster one that is level, or a blend
evaluator          `TrialEvaluator`: fits a candidate and evaluates it on the inner split
events             The events of a search in its journal, and a progress line for each
finalise           From the search to a deployed model: decide, test once, fit on everything
runtime_estimates  Seconds of fits, from small shares of the log and from earlier trials
schedule           What is run in which order, and how many steps networks get
search             Rounds and rungs, by paired differences
subprocess_runner  Runs a task in a process that is killed at its deadline
summary            chosen.json and the HTML page: why this model, the table, commands
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
