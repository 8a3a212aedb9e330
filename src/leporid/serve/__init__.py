"""A trained run over HTTP: recommendations, similar items, new events, and a page to try them.

ab_test     `ABTest`: users are divided between two runs, and what they are shown is kept
access      `Access`: who may read, who may write events, who may reload
app         `create_app`: the endpoints and the page. Every error is one sentence in JSON
batching    `Batcher`: one thread shared fairly by clients; `Budget`: a rate limit per client
live_results  `compare_live`: in which of two served runs did users have more hits?
loaded_run  `LoadedRun`: everything the service knows of one run, loaded once and never changed
middleware  What is counted of every request, and which are let in; metrics for Prometheus
rules       The rules of a request, bound to a run
schemas     Requests, answers and `ServeLimits`: how much one request may ask for
server      `serve_forever`: one uvicorn process, which bounds and times its connections
service     `Service`: the runs that are served, the ranking, what each endpoint does
store       Events and shown lists, kept durably in SQLite or PostgreSQL; how events become a log
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
