"""The page in a real browser: search, click, change, error, phone width."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.chromium import Page, find_chromium
from tests.serve.test_kill import server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_chromium() is None, reason="no Chromium: install Debian's package `chromium`"
    ),
]
OFFERED = "#found .title"
FIRST = "document.querySelector('#runs .title').textContent"
LISTED = "#runs .run:first-child .title"
ENDS_AT_ROW = """(box) => {
    const end = box.getBoundingClientRect().bottom;
    return [...box.children].some((e) => Math.abs(e.getBoundingClientRect().bottom - end) <= 2);
}"""
SMALL_TARGETS = """[...document.querySelectorAll('button, a, input:not([type=checkbox])')]
    .filter((e) => e.offsetHeight && e.offsetHeight < 40).map((e) => e.outerHTML)"""
READY = "document.body && document.body.dataset.ready === 'yes'"
STATUS = "document.getElementById('status').textContent"


def listed(page: Page, where: str) -> list[str]:
    found: list[str] = page.run(
        f"[...document.querySelectorAll('{where}')].map((e) => e.textContent)"
    )
    return found


def test_a_user_finds_and_clicks(page: Page, run_dir: Path, tmp_path: Path, pictures: Path) -> None:
    other = run_dir.parent / "toppop"
    with server(run_dir, tmp_path / "events.db", "--compare", str(other)) as (process, address):
        page.size(1280, 1400)
        page.open(address + "/")
        page.wait(READY)

        # It opens with a user and what is recommended to them, in words.
        drawn = page.run("fetch('/users').then((r) => r.json())")
        assert page.run(STATUS).startswith(f"For user {drawn['id']}, who has ")
        newest_first = [item["title"] for item in reversed(drawn["recent"])]
        assert listed(page, "#history li > span") == newest_first
        assert len(listed(page, LISTED)) == 10
        # ItemKNN says why by its own weights, TopPop by the log.
        reasons = [listed(page, f"#runs .run:nth-child({n}) .why") for n in (1, 2)]
        assert all(why.endswith(", by the model's own weights.") for why in reasons[0])
        assert any("ften together with Film" in why for why in reasons[1])
        assert not page.run("document.getElementById('log-reasons').hidden")
        assert page.run("document.getElementById('no-titles').hidden")

        # Two lists: what differs, which model is which, and what both have can be hidden.
        lists = [set(listed(page, f"#runs .run:nth-child({n}) .title")) for n in (1, 2)]
        difference = page.run("document.getElementById('difference').textContent")
        assert difference.startswith(f"{len(lists[0] & lists[1])} of 10 are in both lists.")
        assert all(title in difference for title in lists[0] ^ lists[1])
        assert all(s.startswith("Validated model") for s in listed(page, "#runs .run .hint"))
        page.click("#only-different")
        visible = "[...document.querySelectorAll('#runs .title')].filter((e) => e.offsetWidth)"
        assert set(page.run(f"{visible}.map((e) => e.textContent)")) == lists[0] ^ lists[1]
        page.click("#only-different")

        # The boxes end where a row ends.
        for box in ("history", "found"):
            assert page.run(f"({ENDS_AT_ROW})(document.getElementById('{box}'))")

        # Somebody else, and back to an empty history: the most popular items, and it says so.
        page.click("#surprise")
        page.wait(f"!{STATUS}.startsWith('For user {drawn['id']},')")
        assert page.run(STATUS).startswith("For user ")
        box = page.run("document.getElementById('user').value")
        assert page.run(STATUS).startswith(f"For user {box}, who has ")
        page.click("#clear")
        page.wait(f"{STATUS}.startsWith('Your history is empty, so these are the most popular')")
        assert page.run("document.getElementById('user').value") == ""
        popular = page.run("ask('/recommend', { histories: [[]], n: 10 })")["results"][0]
        assert popular["fallback"] == "popular"
        titles = [item["title"] for item in popular["items"]]
        assert listed(page, LISTED) == titles
        assert page.run("document.getElementById('differ').hidden")

        # There the search box has the focus: what the hint says to press is not typed into it.
        typed = "document.getElementById('query').value"
        assert page.run("document.activeElement.id") == "query"
        page.press("/", "/")
        assert page.run(typed) == ""
        page.press("x", "x")
        page.press("/", "/")
        assert page.run(typed) == "x/", "a title may have a slash in it"
        page.run("document.getElementById('query').value = ''")

        # Search by keyboard only, add the first title with Enter.
        page.run("document.activeElement.blur()")
        page.press("/", "/")
        assert page.run("document.activeElement.id") == "query"
        assert page.run(typed) == ""
        for letter in "part 3":
            page.press(letter, letter)
        page.wait(
            "document.querySelectorAll('#found li').length && "
            "[...document.querySelectorAll('#found .title')]"
            ".every((e) => e.textContent.includes('3'))"
        )
        page.press("Enter", "\r")
        page.wait("document.querySelectorAll('#history li').length === 1")
        page.wait(f"{STATUS} === 'For your 1 item.'")
        before = listed(page, LISTED)
        assert len(before) == 10
        tops = "document.querySelectorAll('#runs ol')"
        assert page.run(f"new Set([...{tops}].map((e) => e.getBoundingClientRect().top)).size") == 1
        sentences = listed(page, "#runs .run .hint")
        assert [sentence.endswith(".") for sentence in sentences] == [True, True]

        # What is chosen is not offered again, until it is removed.
        [chosen] = listed(page, "#history li > span")
        page.wait("document.querySelectorAll('#found li').length > 1")
        assert chosen not in listed(page, OFFERED)
        page.click("#history button[aria-label^='Remove']")
        page.wait("document.querySelectorAll('#history li').length === 0")
        page.wait(
            f"[...document.querySelectorAll('{OFFERED}')].some((e) => e.textContent === {chosen!r})"
        )
        page.click(OFFERED)
        page.wait(f"{STATUS} === 'For your 1 item.'")
        before = listed(page, LISTED)

        # A recommendation that is clicked joins the history, and the list changes.
        page.run("document.querySelector('#runs .title').click()")
        page.wait(f"document.querySelectorAll('#history li').length === 2 && {FIRST} !== 'x'")
        page.wait(f"{FIRST} !== {before[0]!r}")
        assert before[0] in listed(page, "#history li > span")

        # What is similar to an item is listed below.
        page.run("document.querySelector('#history button[aria-label^=Items]').click()")
        page.wait("document.querySelectorAll('#similar li').length > 3")
        page.screenshot(pictures / "page-light.png")
        page.size(1280, 1400, dark=True)
        page.screenshot(pictures / "page-dark.png")

        # A user of the log: the same list as for a program, until the history is edited.
        known = page.run("fetch('/users/7').then((r) => r.json())")
        page.run("document.getElementById('user').value = '7'")
        page.click("#user-form button")
        page.wait(f"{STATUS}.startsWith('For user 7,')")
        newest_first = [item["title"] for item in reversed(known["recent"])]
        assert listed(page, "#history li > span") == newest_first
        answer = page.run("ask('/recommend', { users: [7] })")
        expected = [item["title"] for item in answer["results"][0]["items"]]
        assert listed(page, LISTED) == expected
        page.click("#history button[aria-label^='Remove']")
        page.wait(f"{STATUS}.startsWith('For your')")

        # Nothing came from elsewhere, and nothing went wrong on the way.
        assert {url.startswith(address) for url in page.requests()} == {True}
        assert page.complaints() == []

        # On a phone there is one column with tabs, and nothing is wider than the window.
        page.size(390, 844, dark=True)
        shown = "[...document.querySelectorAll('main > section')].filter((e) => e.offsetWidth)"
        heights = set()
        for part in ("choose", "recs", "near"):
            page.click(f"#t-{part}")
            heights.add(page.run("document.getElementById('tabs').offsetHeight"))
            assert page.run(f"{shown}.map((e) => e.id)") == [part]
            assert page.run(SMALL_TARGETS) == []
            page.wait("document.documentElement.scrollWidth <= 390")
        assert len(heights) == 1, "no label wraps, so that nothing jumps under the thumb"
        assert page.run("document.querySelector('header').offsetHeight") < 100
        page.press("ArrowRight")
        assert page.run("document.activeElement.id") == "t-choose"
        assert page.run(f"{shown}.map((e) => e.id)") == ["choose"]
        page.screenshot(pictures / "page-phone-dark.png")

        # There "Show" leads to the list.
        page.click("#t-choose")
        page.run("document.getElementById('user').value = '8'")
        page.click("#user-form button")
        page.wait(f"{STATUS}.startsWith('For user 8,')")
        page.wait("document.activeElement.id === 'h-recs'")
        assert page.run(f"{shown}.map((e) => e.id)") == ["recs"]
        assert page.run("scrollY") == 0
        page.click("#t-choose")
        page.click("#history button[aria-label^='Remove']")

        # Somebody whom the model does not know gets the most popular items.
        page.run("document.getElementById('user').value = 'nobody'")
        page.click("#user-form button")
        page.wait(f"{STATUS}.startsWith('The model does not know user nobody, so these are the')")
        assert listed(page, LISTED) == titles
        assert page.run("document.getElementById('problem').hidden")
        page.click("#t-choose")
        page.click("#clear")
        page.wait(f"{STATUS}.startsWith('Your history is empty')")

        # Every control has a name a screen reader can say.
        nameless = page.run(
            "[...document.querySelectorAll('button, input')].filter((e) => "
            "!(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length)).length"
        )
        assert nameless == 0

        # An item that the model does not know is named; what the server refuses is shown in words,
        # and so is a server that has gone.
        page.run("add({ id: 'no-such-film', title: 'A film nobody knows' })")
        page.wait(f"{STATUS}.startsWith('The model knows no item of your history, so these are')")
        page.wait(f"{STATUS}.includes('A film nobody knows')")
        page.run("showSimilar({ id: 'no-such-film', title: 'A film nobody knows' })")
        page.wait("document.getElementById('problem').textContent.includes('no-such-film')")
        process.kill()
        process.wait()
        page.run("recommend()")
        page.wait("document.getElementById('problem').textContent.includes('does not answer')")


def test_the_documentation_is_fastapis_own_and_needs_no_other_host(
    page: Page, run_dir: Path, tmp_path: Path, pictures: Path
) -> None:
    with server(run_dir, tmp_path / "events.db") as (_, address):
        page.size(1280, 900)
        page.open(address + "/docs")
        page.wait("document.querySelectorAll('.opblock').length")
        document = page.run("fetch('openapi.json').then((r) => r.json())")
        listed = page.run("[...document.querySelectorAll('.opblock')].map((e) => [e.querySelector("
                          "'.opblock-summary-method'), e.querySelector('.opblock-summary-path')]"
                          ".map((part) => part.textContent.replaceAll('\u200b', '')))")  # fmt: skip
        expected = [[m.upper(), path] for path, by in document["paths"].items() for m in by]
        assert sorted(listed) == sorted(expected)
        page.screenshot(pictures / "docs.png")

        # A request can be tried: the answer is the server's.
        page.click("#operations-default-health_health_get .opblock-summary-control")
        page.click("#operations-default-health_health_get .try-out__btn")
        page.click("#operations-default-health_health_get .execute")
        page.wait("document.querySelector('.live-responses-table .highlight-code')"
                  "?.textContent.includes('\"status\": \"ok\"')")  # fmt: skip
        assert {url.startswith((address, "data:")) for url in page.requests()} == {True}
        assert page.complaints() == []


def test_two_runs_of_one_kind_have_names_of_their_own(
    page: Page, run_dir: Path, tmp_path: Path
) -> None:
    with server(run_dir, tmp_path / "events.db", "--compare", str(run_dir)) as (_, address):
        page.open(address + "/")
        page.wait(READY)
        assert listed(page, "#runs h3") == ["itemknn (first)", "itemknn (second)"]


def test_without_titles_it_says_how_to_get_them(page: Page, run_dir: Path, tmp_path: Path) -> None:
    shutil.copytree(run_dir, tmp_path / "alone" / "run")
    with server(tmp_path / "alone" / "run", tmp_path / "events.db") as (_, address):
        page.size(1280, 900)
        page.open(address + "/")
        page.wait(READY)
        assert "--items" in page.run("document.getElementById('no-titles').innerText")
        assert page.run("document.getElementById('differ').hidden")
