"""Tests of the room `runs`, by file.

`outcomes` is covered by test_grid and test_store, `worker` by test_grid (two workers), `comparison`
and `run_folder` by tests/cli/test_compare_and_doctor.py (against the evaluation room) and
test_store, `baselines` by test_cell and tests/cli/test_recommend_and_tune.py.
"""
