"""Which model, from which start, for this log, by then: a race that ends in a run to deploy.

Candidates are judged on a rehearsal of the test, in rungs of more and more users and steps. A
journal makes a killed race go on; the time the winner needs to the end is kept from the start.

answer      The answer that a folder holds: what it is, and what may replace it
subprocess_runner  Work in a process of its own, which is killed where it outlasts its time
blending    Which finished candidates make a blend that is better than the best of them
budget      Time: durations, the timer, and what stops work that outlasts it
candidates  Who takes part, in which order, and variants of their settings
choice      `choose` and its answer
finalise  From the race to a model to deploy: choose, test once, fit on everything
decision    Which candidate: the best value, a cheaper one that is level, or a blend
journal     One JSON line per event, on disk before the race goes on
evaluator  Judging candidates on the rehearsal, and predicting what that costs
progress_messages  What a race says while it runs
runtime_estimates  What a fit will take, from fits on small shares of the log, and a request
schedule  What is run in which order, and how many steps networks get
search  Heats and rungs, by paired differences; knows no model
report      The race as one HTML page
summary  The answer in words, and the table behind it
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
