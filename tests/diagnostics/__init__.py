"""Tests of the diagnostics: measures here, the rest through the commands that show it.

inspection is covered by tests/cli/test_embed_cli.py, doctor by
tests/cli/test_compare_and_doctor.py.
"""
