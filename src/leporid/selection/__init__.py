"""Which model and initialisation for a log: a search within a budget of time, ending in a run.

Candidates are evaluated on an inner validation split. Every family of models has its first trials,
then the time goes where the upper confidence bound is. A journal makes a killed search go on; the
time for the final fits is kept from the beginning.

budget             Durations, the timer of a budget, and the guard that stops work at a deadline
candidates         The problem, candidates in their order, variants of their settings, trials
choice             `choose`, its answer, and the one that a folder holds already
evaluator          `TrialEvaluator`: fits a candidate and evaluates it on the inner split
events             The events of a search in its journal, and a progress line for each
finalise           From the search to a deployed model: decide, test once, fit; learning curve
priors             Families of models, and which did well on logs like this one
report             The HTML page: charts, tables, examples
runtime_estimates  Seconds of fits, from small shares of the log and from earlier trials
schedule           What is run in which order, and how many steps networks get
search             Runs trials, keeps the time for the end, and decides: a candidate, or a blend
subprocess_runner  Runs a task in a process that is killed at its deadline
summary            The answer in words, its table and its commands
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
