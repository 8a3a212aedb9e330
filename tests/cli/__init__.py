"""The commands as users call them.

test_app.py covers app; test_options.py options; test_compare_and_doctor.py compare, doctor and
diagnostics/doctor.py; test_data_cli.py data; test_embed_*.py embed, export and inspect;
test_evaluate_cli.py evaluate;
test_recommend_and_tune.py recommend and tune. `demo` is covered by tests/test_demo.py, `train` by
tests/training/test_train.py and test_compare_and_doctor.py, `run` by the tests of runs,
`serve` by tests/serve/test_kill.py.
"""
