"""`Audit` counts what was checked and collects what differs; `tables` reads those of a page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

WORDS = ("better", "equivalent", "inconclusive", "worse")
NUMBER = re.compile(r"[-+]?\d*\.?\d+(?:e[-+]?\d+)?")


@dataclass(frozen=True)
class Table:
    """A Markdown table and what stands before it."""

    heading: str
    anchor: str
    before: str
    """The text between the heading and the table."""
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass
class Audit:
    """What was checked and what differs."""

    page: str = ""
    numbers: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """Tables that are not covered."""

    def number(self, shown: str, value: float, where: str) -> None:
        """A printed number is the value, to half a unit of its last digit."""
        text = shown.replace(",", "").replace("*", "").replace("_", "").replace("%", "").strip()
        self.numbers[self.page] += 1
        found = NUMBER.fullmatch(text.lstrip("±").strip())
        if not found:
            self.wrong.append(f"{self.page}, {where}: {shown!r} is no number, {value:.6g} expected")
            return
        digits = len(text.partition(".")[2].partition("e")[0])
        unit = 10.0**-digits * 10.0 ** int(text.partition("e")[2] or 0)
        if abs(float(text.lstrip("±")) - value) > unit / 2 * (1 + 1e-6):
            self.wrong.append(f"{self.page}, {where}: {shown!r} is shown, {value:.6g} is right")

    def word(self, shown: str, expected: str, where: str) -> None:
        """A printed word is the expected one."""
        self.words[self.page] += 1
        if shown.strip() != expected:
            self.wrong.append(f"{self.page}, {where}: {shown!r} is shown, {expected!r} is right")

    def search(self, pattern: str, text: str, where: str) -> tuple[str, ...]:
        """The groups of a sentence of the page; one that is not there is a difference."""
        found = re.search(pattern, text)
        if found is None:
            self.wrong.append(f"{self.page}, {where}: there is no such sentence")
            return ()
        return tuple(group or "" for group in found.groups())

    def many(self, shown: str, values: Sequence[float], where: str) -> None:
        """All numbers of a cell, in their order."""
        texts = re.findall(r"[-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?|[-+]?\.\d+", shown)
        if len(texts) != len(values):
            self.wrong.append(f"{self.page}, {where}: {shown!r} has {len(texts)} numbers")
        for text, value in zip(texts, values, strict=False):
            self.number(text, value, where)

    def counts(self, table: Table, words: Mapping[str, Counter[str]], before: str = "") -> None:
        """A table of how often each word occurs."""
        for row in table.rows:
            counts = words[row[0].removeprefix(before)]
            self.number(row[1], counts.total(), row[0])
            for cell, word in zip(row[2:], table.header[2:], strict=True):
                if word in WORDS:
                    self.number(cell, counts[word], f"{row[0]}, {word}")


def tables(text: str) -> Iterator[Table]:
    """The tables of a page; of a folded table the whole one."""
    found: list[Table] = []
    heading, anchor, before = "", "", ""
    block: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            block.append(line)
            continue
        if len(block) > 2:
            cells = [tuple(c.strip() for c in row.strip()[1:-1].split("|")) for row in block]
            found.append(Table(heading, anchor, before, cells[0], tuple(cells[2:])))
        block = []
        if line.startswith("#"):
            heading, before = line.lstrip("# "), ""
        elif line.startswith("<a id="):
            anchor = line.split('"')[1]
        else:
            before += f"{line}\n"
    for table, following in zip(found, [*found[1:], None], strict=True):
        same = following and following.header == table.header
        if not (same and following and following.rows[: len(table.rows)] == table.rows):
            yield table
