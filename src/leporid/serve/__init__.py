"""A trained run over HTTP.

app         `create_app`: the HTTP side. Every answer that is not a success is one sentence in JSON
batching    `Batcher`: requests that arrive while a batch is worked on make up the next one
engine      `Engine`: a batch of people in, a ranked list for each of them out. Runs in one thread
export      From the store of events back to a log
item_map    The picture of all items: two coordinates each, and a colour
limits      What one request may ask for
loaded_run  `LoadedRun`: everything the service knows of one run, loaded once and never changed
metrics     Counters and histograms in the text format Prometheus reads
middleware  The outermost layer: size of the body, time and count of every request, safe headers
page        The page at /, its files, and the documentation of the endpoints; no other host is asked
schemas     What requests and answers look like; the OpenAPI document is made from these
server      One uvicorn process for one application
service     `Service`: the runs that are served, and what each endpoint does with them
store       New interactions, kept durably: an event that was answered with 200 survives a kill
threads     How many threads a model is scored with: more than one only where they pay
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
