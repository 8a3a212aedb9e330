"""Tests of `reproduction`, by file.

`render` is covered by test_tables, `outputs` and `report` by test_report, test_report_page and
test_time_cost, `figures` by test_report_page and tests/test_docs.py. test_verdict, test_leaderboard
and test_report also compare the pages in docs/ with the records.
"""
