"""The service, asked as a client would ask it.

test_endpoints.py covers app, engine, service, schemas, middleware, metrics and page;
test_events.py service, store and the swap of a run; test_store.py and test_kill.py store;
test_batching.py batching; test_mapped.py loaded_run; test_server.py server and the choice of
threads; test_two_stage.py engine with a first stage; test_hostile.py, test_fuzz.py and
test_schemathesis.py the endpoints with hostile input, and seldom; test_budget.py budget, the costs
and the search; test_timing.py the connections of server; tests/attack/ a whole server under attack;
test_page.py the page in a browser.
"""
