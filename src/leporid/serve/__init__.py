"""A trained run over HTTP: recommendations, similar items, new events, and a page to try them.

access      `Access`: who may read, who may write events, who may reload
app         `create_app`: the HTTP side. Every answer that is not a success is one sentence in JSON
batching    `Batcher`: requests that arrive while a batch is worked on make up the next one
budget      `Budget`: a token bucket per client address
engine      `Engine`: a batch of people in, a ranked list for each of them out
item_map    The picture of all items: two coordinates each, colours and the names of regions
layout      `lay_out`: two coordinates per vector such that neighbours stay neighbours
loaded_run  `LoadedRun`: everything the service knows of one run, loaded once and never changed
logs        One line of JSON per request, and `Seldom`: a log that requests cannot fill
metrics     What the server counts, for Prometheus
middleware  The outer layers: what is counted and logged of every request, and which are let in
page        The page at /, its files, and the documentation of the endpoints
schemas     What requests and answers look like, and how much one request may ask for
server      `serve_forever`: one uvicorn process for one application
service     `Service`: the runs that are served, and what each endpoint does with them
store       New interactions, kept durably in SQLite or PostgreSQL, and how they become a log
timing      Connections that are too many, send too slowly or too much, or read no answer: closed
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
