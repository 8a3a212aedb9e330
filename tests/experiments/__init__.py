"""Tests of the room `runs`, by file.

`run_folder` is covered by test_store and
tests/cli/test_compare_and_doctor.py (which also tests `comparison` against the evaluation room),
`baselines` by test_cell and tests/cli/test_recommend_and_tune.py.
"""
