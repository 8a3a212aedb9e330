"""A trained run over HTTP: recommendations, similar items, new events, and a page to try them.

ab_test       `ABTest`: users are divided between two runs, and what they are shown is stored
access        `Access`: who may read, who may send events, who may reload
app           `create_app`: the endpoints and the page. Every error is one sentence in JSON
batching      `Batcher` and `Turns` share the server fairly; `Budget`: a rate limit per client
event_log     `merged_log`: the events of a store as interactions, after those of a log
live_results  `compare_live`: in which of two served runs did users have more hits?
loaded_run    `LoadedRun`: everything the service knows about a run, loaded once
middleware    `RequestLog` counts requests, `RequestGuard` decides which are let in; `Metrics`
rules         Rules of a request: what they cost, and how they are bound to a run
schemas       Schemas of requests and answers; `ServeLimits`: how much a request may ask for
server        `serve_forever`: one uvicorn process, which bounds and times its connections
service       `Service`: the runs that are served, the ranking, what each endpoint does
store         Events and shown lists, stored durably in SQLite or PostgreSQL
user_query    `UserQuery`: what one user of a request is recommended from, and the result
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
