"""A test file per source file, and some that cover several.

test_recbole and test_torch_geometric run the real
libraries; test_torch_modules and test_implicit cover `rows`.
"""
