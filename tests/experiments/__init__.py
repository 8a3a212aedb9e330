"""Tests of `experiments`, by file.

`record` is covered by test_record and tests/cli/test_compare_and_doctor.py (which also tests the
comparison of runs), `grid` by test_cell, test_grid and test_spec, `fit_and_test` by test_cell and
test_baselines.
"""
