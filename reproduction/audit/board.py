"""The rows of the leaderboard and their families of comparisons, for the pages that show them."""

from __future__ import annotations

from collections import Counter, defaultdict

from reproduction.audit.records import Found, Record, Store, compared, holm

CLASSICAL = (
    *("toppop", "userknn", "itemknn", "slim", "ease"),
    *("p3alpha", "rp3beta", "gfcf", "turbocf", "ials", "transitions"),
)
OURS = "dlr2 as it comes from leporid"


class Board:
    """The leaderboard by the records of a store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def row(self, dataset: str, name: str) -> list[Record]:
        """'sasrec as it comes from svd', 'dlr2 from le', 'ease'."""
        model, _, init = name.partition(" from ")
        if model.endswith(" as it comes"):
            short = model.removesuffix(" as it comes")
            return self.store.select(dataset, ["default"], model=short, init=init)
        experiments = ["leaderboard"] if init else ["baselines"]
        return self.store.select(dataset, experiments, model=model, init=init or None, variant=None)

    @property
    def initialiser_words(self) -> dict[str, Counter[str]]:
        """How often each word stands in the comparisons of initialisers, by the other one."""
        return {
            base: Counter(found.word for found in family.values())
            for base, family in self.initialiser_families.items()
        }

    @property
    def initialiser_families(self) -> dict[str, dict[tuple[str, str], Found]]:
        """LEPORID against each other initialiser on all data sets: a family each."""
        families: dict[str, dict[tuple[str, str], Found]] = defaultdict(dict)
        for dataset in self.store.datasets:
            runs: dict[tuple[str, str], list[Record]] = defaultdict(list)
            for record in self.store.select(dataset, ["leaderboard"]):
                runs[record["model"], record["init"]].append(record)
            for (model, init), own in runs.items():
                ours = runs.get((model, "leporid"))
                if init != "leporid" and ours:
                    sides = [self.store.side(side, "NDCG@10") for side in (ours, own)]
                    families[init][dataset, model] = compared(sides[0], sides[1])
        return {
            base: dict(zip(family, holm(list(family.values())), strict=True))
            for base, family in families.items()
        }

    def best_classical(self, dataset: str) -> str:
        """The classical model with the highest NDCG@10 on validation."""
        runs = [r for r in self.store.select(dataset, ["baselines"]) if r["model"] in CLASSICAL]
        best = max(runs, key=lambda run: run["valid_metrics"]["NDCG@10"])
        return str(best["model"])

    def by_model(self) -> dict[str, Counter[str]]:
        """How often each word stands against random embeddings, by model."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for (_, model), found in self.initialiser_families["random"].items():
            counts[model][found.word] += 1
        return counts

    def rivals(self, name: str) -> list[Found]:
        """DLR2 against a row on every data set; "" is the best classical model of each."""
        family = []
        for dataset in self.store.datasets:
            ours = self.row(dataset, OURS)
            if ours:
                other = self.row(dataset, name or self.best_classical(dataset))
                sides = [self.store.side(side, "NDCG@10") for side in (ours, other)]
                family.append(compared(sides[0], sides[1]))
        return holm(family)
