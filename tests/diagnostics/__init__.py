"""Tests of the diagnostics: doctor is covered by tests/cli/test_compare_and_doctor.py."""
