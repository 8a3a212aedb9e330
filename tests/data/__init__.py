"""Tests of `leporid.data`.

Most files have a test of their name. Beyond that: `test_load_frames` covers `loading` and
`timestamps`; `test_load_text` covers `columns`, `files`, `policies` and `write_log`;
`test_datasets` covers `download` and `item_titles`; `test_splitting` covers `split` and `id_map`
in files. `tests.attack.fuzz_loads` reads thousands of odd files.
"""
