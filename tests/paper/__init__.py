"""Tests of the room `paper`, by file.

test_verdict also holds docs/verdict.md to the records. `render` is covered by test_tables,
`outputs` and `report` by test_report_page, test_time_cost and
tests/runs/test_grid.py, `reproduce` by tests/runs/test_spec.py, `figures` by test_report_page and
tests/test_docs.py.
"""
