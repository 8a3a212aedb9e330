"""The auditor: recomputes the numbers and words of the pages from records, by code of its own.

    python -m reproduction.audit [--docs docs] [--results results]

It reads the tables of the pages as text. What a row is about stands in its first cells; every
other cell is computed again and compared, numbers to half a unit of the last printed digit. It
prints how many numbers and words it checked on each page and what it does not cover, and ends with
status 1 if anything differs. Write the pages first: `python docs/make_pages.py`.

checks        `Audit` counts checks and collects differences; `tables` reads a page
records       records, hits and statistics
verdict       docs/verdict.md
paper         docs/paper.md
leaderboard   docs/leaderboard.md
results       docs/results.md and the README's tables and first sentences
study         docs/initialisation.md
"""
