"""Which model and initialisation for a log: a search within a budget of time, ending in a run.

Candidates are evaluated on an inner validation split. Every family of models has its first trials,
then the time goes where the upper confidence bound is. A journal makes a killed search go on; the
time for the final fits is kept from the beginning.

answer             `Answer`: what `choose` says besides the model; the one in a folder
budget             Durations, the timer of a budget, and the deadline that stops work
candidates         `Candidate`: a model, an initialisation and settings; the order of all
choice             `choose`, and its result, a `Choice`
decision           `decide`: a candidate, or a blend of several
evaluator          `TrialEvaluator`: fits a candidate and evaluates it on the inner split
events             The events of a search in its journal, and a progress line for each
final_fits         The fits before the test and after it
finalise           From the search to a deployed model: decide, fit, test once, fit, write
init_ranking       Which initial embeddings networks are trained from
learning_curve     What more data would give
network_plan       Which networks are trained, with how many steps and which batches
priors             Families of models, and which did well on logs like this one
report             The HTML page: charts, tables, examples
runtime_estimates  Seconds of fits, from small shares of the log and from earlier trials
schedule           What is run in which order
search             `Search`: runs trials and keeps the time for the end
subprocess_runner  Runs a task in a process that is killed at its deadline
summary            The answer in words, its table and its commands
task               `SearchTask`: the log, its inner split and the metric
trials             `TrialResult`: what a trial gave, and what it cost
variant_rounds     Rounds of variants of the models that may still improve most
variants           Variants of a model's settings, drawn from its search space
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
