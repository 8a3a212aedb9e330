"""The API reference: nothing public is missing, and every name on it exists."""

from __future__ import annotations

import importlib
import inspect
import re
import runpy
from pathlib import Path

import pytest

import leporid
from tests.test_architecture import SOURCE, exports

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
LISTED = set(re.findall(r"^::: (\S+)$", PAGE, re.MULTILINE)) | set(
    re.findall(r"`(leporid\.\w+\.\w+)\(", PAGE)
)
FOR_OTHER_PACKAGES = {
    "selection": {"format_duration", "parse_duration"},
    "data": {
        "Duplicates",
        *("Frame", "GivenIds", "collected", "frame_columns", "frame_like", "id_columns"),
        *("is_frame", "with_column"),
        "as_log",
        "is_log",
        "HeldOut",
        "first_of_pairs",
        "DATASETS",
        "PROTOCOLS",
        "TABLES",
        "Part",
        "cache_dir",
        "in_words",
        "is_split",
        "VECTOR_READERS",
        "read_ids",
        "titles_of",
        "transpose",
    },
    "evaluation": {
        *("Evaluable", "FAMILIES", "FittedModel", "HIT_COLUMNS", "Scorer", "TensorScorer"),
        *("UserValuesBySeed", "combine", "ingredients", "ndcg", "parse_metric", "user_stratum"),
    },
    "embeddings": {
        "OWN_MODEL_SETTINGS",
        *("Landmarks", "TableExtension", "basis_size", "cached_fit", "column_signs"),
        *("content_edges", "landmark_count", "landmark_neighbours"),
        *("laplacian_operator", "nearest_by_content", "principal_components"),
        *("regularized_degrees", "scale_for_model", "standardizes", "truncated_svd"),
    },
    "interop": {
        *("BENCHMARK_LINES", "CONFIG_LINES", "FORMATS", "INITIALIZE_LINES", "MOVED", "TARGETS"),
    },
    "models": {
        *("BASELINES", "BASELINE_METRIC", "BestBaseline", "FittedBaseline", "baseline_specs"),
        *("best_baseline", "fit_baselines", "left_out_sentence", "validation_metric"),
        *("Backward", "Batch", "BuildContext", "CHECKPOINT_FILE", "DEFAULT_INIT", "DEFAULT_RECIPE"),
        *("DISLIKED_SHARE", "Fitting", "GENERAL", "Init", "NegativeSampler", "Sampler"),
        *("Sampling", "Trainable", "TrainingData", "adopt_tensors", "check_tensors", "derive_seed"),
        *("everything", "find_model", "fit_init", "fit_sentence", "learning_rate", "load_tables"),
        *("mixed_precision", "model_folder", "model_named", "named_recipe", "neighbour_rows"),
        *("own_generators", "pick_blend", "recent_items", "refit_on_everything", "resolve_device"),
        *("seed_default", "table_settings", "to_arrays", "train_loop", "trained_on"),
    },
    "runs": {
        *("Baseline", "BaselineCheck", "CUTOFFS", "Cell", "Cost", "Event", "Schema"),
        *("Journal", "Meter", "OF_EARLIER_RUN", "try_lock", "evaluate_run", "load_split"),
        "outcomes_of",
        *("paired_tests", "read_experiment", "run_cell", "safe_name", "examples_html"),
        *("HITS_CAPTION", "MOST_POPULAR", "groups_of_users", "hits_in_words", "write_comparison"),
        "write_run_files",
    },
    "ranking": {
        *("Allowed", "AskedUsers", "Condition", "ExtensionUnsupportedError", "Ids", "Indices"),
        *("ItemNeighbours", "ListModel", "Lists", "NanScoreError"),
        *("Scores", "Unknown", "UnknownPair", "allowed_items", "asked_users", "check_list"),
        *("check_n", "most_similar", "rank_asked", "rank_users", "score_frame"),
        *("history_indices", "id_indices", "is_id"),
        *("item_list_frames", "item_list_schema"),
        *("ItemWeightMatrix", "joined_lists", "list_frames", "list_schema", "masked_top_k"),
        *("masked_top_k_torch", "padded_lists", "rank_in_chunks"),
    },
    "serve": {"merged_log"},
}
"""What a package exports for other packages rather than for users. A name that a package exports is
either there or on the page."""


def test_every_name_of_the_library_is_on_the_page() -> None:
    packages = {name for name in leporid.__all__ if inspect.ismodule(getattr(leporid, name))}
    for name in set(leporid.__all__) - packages:
        assert f"leporid.{name}" in LISTED or f"`leporid.{name}`" in PAGE, name
    for package in packages - {"errors"}:
        assert any(name.startswith(f"leporid.{package}.") for name in LISTED), package
    assert "leporid.errors" in LISTED


@pytest.mark.parametrize("package", sorted(FOR_OTHER_PACKAGES))
def test_every_name_of_a_package_is_on_the_page_or_not_for_users(package: str) -> None:

    public = exports(SOURCE / package) - FOR_OTHER_PACKAGES[package]
    owners = [package, "initializers"] if package == "embeddings" else [package]
    listed = {name for owner in owners for name in public if f"leporid.{owner}.{name}" in LISTED}
    missing = public - listed - set(leporid.__all__)
    assert not missing, f"add to docs/api.md, or to FOR_OTHER_PACKAGES: {sorted(missing)}"
    assert FOR_OTHER_PACKAGES[package] <= exports(SOURCE / package)


def test_every_name_on_the_page_exists_under_that_name() -> None:
    for listed in LISTED - {"leporid.errors"}:
        owner, _, name = listed.rpartition(".")
        package = owner.removeprefix("leporid").lstrip(".")
        exported = exports(SOURCE / package) if package else set(leporid.__all__)
        assert name in exported, listed
        assert hasattr(importlib.import_module(owner), name), listed


def test_parameters_are_lists_in_the_site() -> None:
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "docstring_style: numpy" in config
    assert "docstring_section_style: list" in config


def test_sentences_of_parameters_are_descriptions_and_types_stay() -> None:
    pytest.importorskip("griffe")
    described = runpy.run_path(str(ROOT / "docs" / "parameters.py"))["described"]
    text = "A.\n\nParameters\n----------\na : int\n    Long.\nb, c : short\nd : a sentence that\n"
    text += "    goes on\ne : what it is\n    Another sentence.\nf : 'auto', float or None\n"
    text += "    Kept.\n\n"
    text += "Returns\n-------\nd : e\n"
    expected = text.replace("b, c : short", "b, c\n    short").replace("d : a", "d\n    a")
    expected = expected.replace("e : what it is", "e\n    what it is.")
    assert described(text) == expected


def test_no_parameter_on_the_page_has_half_a_sentence_for_a_type() -> None:
    griffe = pytest.importorskip("griffe")
    described = runpy.run_path(str(ROOT / "docs" / "parameters.py"))["described"]
    for listed in LISTED - {"leporid.errors"}:
        owner, _, name = listed.rpartition(".")
        found = getattr(importlib.import_module(owner), name)
        text = described(inspect.getdoc(found) or "")
        for section in griffe.Docstring(text).parse("numpy", warnings=False):
            if section.kind.value == "parameters":
                for parameter in section.value:
                    # A type is short and has no verb: "int, 'auto' or None".
                    assert len(str(parameter.annotation or "").split()) <= 6, (listed, parameter)
