"""Which waits are left: one table of what other records measured, beside what was asked.

    python -m benchmarks.waits

It measures nothing. The records are those of `user_side`, `first_call` and `two_versions` (with
0.7.0 in turns), `evaluation` (with RecBole), `serve_large` and `choose`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import RECORDS, write_record
from leporid.foundation import read_json

OLD = "0.7.0"
NEAR, VALID = "seconds to 99% of the network's best", "NDCG@10 on validation"


def rows() -> Iterator[dict[str, Any]]:
    """A row per job: before, after, what was asked, and what the rest is spent on."""
    sides = {row["version"]: row for row in _record("user_side")["rows"]}
    new = next(version for version in sides if version != OLD)
    yield {
        "job": "user side of LEPORID, Anime's shape, seconds",
        "before": sides[OLD]["together s"],
        "after": sides[new]["together s"],
        "asked": "5",
        "what is left": "; ".join(
            f"{k[:-2]} {v:.2f}" for k, v in sides[new].items() if k[-2:] == " s"
        ),
    }
    for row in _record("trainings")["rows"]:
        yield {
            "job": f"{row['job'].replace(':', ' ')}, as it comes, seconds",
            "before": row["old"],
            "after": row["new"],
            "asked": "a third" if "sparse" in row["job"] else "no slower",
            "what is left": (
                f"linear part {row['seconds of the linear part, new']:.1f} s; to 99% of the "
                f"network's best {row[NEAR + ', new']:.0f} s, before {row[NEAR + ', old']:.0f}; "
                f"validation NDCG@10 {row[VALID + ', new']:.4f}, before {row[VALID + ', old']:.4f}"
            ),
        }
    calls = {
        (row["version"], row["process"]): row["seconds"] for row in _record("first_call")["rows"]
    }
    compiled, again = "everything compiled", "the same call again in that process"
    yield {
        "job": "first call of a fresh process, seconds",
        "before": calls[OLD, compiled],
        "after": calls[new, compiled],
        "asked": "2.5",
        "what is left": f"reading, computing and writing {calls[new, again]:.2f}, imports the rest",
    }
    ours, *peers = _record("evaluation")["rows"]
    best = min(row["seconds"] for row in peers)
    yield {
        "job": "evaluation of 6,000 x 3,500, RecBole 1.2.1 / leporid",
        "after": best / ours["seconds"],
        "asked": "6",
        "what is left": f"{1000 * ours['seconds']:.1f} ms: reading the scores once, then heaps",
    }
    for row in _record("serve_large")["rows"]:
        first = f"first answer {row['first_answer_s']:.1f} s (asked 3)"
        yield {
            "job": f"{row['model']}, 100,000 items, {row['users']}, 500 requests a second: p99, ms",
            "after": row["p99_ms"],
            "asked": "50",
            "what is left": f"p50 {row['p50_ms']:.1f}; {first}",
        }
    for path in sorted((RECORDS / "choose").glob("*.json")):
        tried = Counter(trial["model"] for trial in read_json(path)["table"])
        linear, near = (
            sum(tried[m] for m in two) for two in (("slim", "ease"), ("itemknn", "userknn"))
        )
        yield {
            "job": f"choose, five minutes, {path.stem}: evaluations of SLIM and EASE",
            "after": linear,
            "asked": f"{near} or more, as many as of neighbours",
            "what is left": f"{sum(tried.values())} evaluations in all",
        }


def _record(name: str) -> dict[str, Any]:
    found: dict[str, Any] = read_json(RECORDS / f"{name}.json")
    return found


if __name__ == "__main__":
    notes = [
        "The user side on an H200 (asked: .40 s) was not measured: there was no GPU.",
        "train sparse stays short. A step of 512 takes 47 ms; by torch's profiler 22% are matrix "
        "products (the softmax over all items, in blocks), 19% convolutions and their gradients, "
        "8% copies between precisions, 6% softmax, 6% gradients of ReLUs, 2% AdamW; no other "
        "operation has 5%. A validation of all users takes 2.3 s. Nothing is left that is large.",
    ]
    write_record("waits", list(rows()), {"before": OLD}, notes)
    print(Path(RECORDS / "waits.json").read_text())
