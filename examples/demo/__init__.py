"""`make demo`: what initial embeddings do, on MovieLens-100K, in five parts.

stages     `run_demo`: runs them; `two_towers`: part 2, with the model of examples/two_tower.py
page       `sentences`, `headline` and `write_page`: the result in words and as HTML
__main__   arguments and printing: `python -m examples.demo --help`
"""
