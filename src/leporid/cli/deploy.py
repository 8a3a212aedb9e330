"""`leporid recommend`, `extend`, `export`, `serve`: what a trained model is for."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from leporid import models, ranking
from leporid.cli.options import (
    FormatOptions,
    Json,
    Output,
    OutputFile,
    VectorSource,
    load_model,
    parse_list,
    parse_settings,
    show,
)
from leporid.errors import ConfigError, DataError, LeporidWarning, import_extra

if TYPE_CHECKING:
    from leporid.models import Recommender


@dataclass(frozen=True)
class FilterOptions:
    """Which items may be recommended."""

    only: Annotated[
        list[str] | None, "Only these: ID,ID or COLUMN=VALUE,VALUE of --items."
    ] = None
    exclude: Annotated[list[str] | None, "Not these items; as --only."] = None
    include_seen: Annotated[
        bool | None, "Also items the user already has [as trained]."
    ] = None
    rules: Annotated[
        Path | None, "Rules for the lists, .toml or .json, on --items."
    ] = None

    def settings(self, model: Recommender, items: Path | None) -> dict[str, Any]:
        """Keywords of the library's functions."""
        sets = [_item_ids(model, text, "--only", items) for text in self.only or []]
        only = sorted(set.intersection(*map(set, sets))) if sets else None
        if only == []:
            raise ConfigError("no item is left: the --only options exclude each other")
        hidden = [
            _item_ids(model, text, "--exclude", items) for text in self.exclude or []
        ]
        exclude = [item for ids in hidden for item in ids] or None
        chosen: dict[str, Any] = {"only": only, "exclude": exclude}
        chosen["include_seen"] = self.include_seen
        if self.rules is not None:
            from leporid.ranking import Rules

            chosen["rules"] = Rules.read(self.rules).bind(model.item_columns(items))
        return chosen


def recommend(
    run: Annotated[
        Path, Argument(help="Folder of a saved model, or of a run with one.")
    ],
    filters: FilterOptions,
    user: Annotated[list[str] | None, "A user's id; may be repeated."] = None,
    history: Annotated[
        list[str] | None, "Items of a new user, oldest first: ID,ID,..."
    ] = None,
    all_users: Annotated[
        bool, Option("--all", help="Every user of the model, into -o.")
    ] = False,
    users: Annotated[
        Path | None, "File of user ids: lines, csv or parquet; into -o."
    ] = None,
    user_column: Annotated[str | None, "Column of --users; else found by name."] = None,
    similar: Annotated[str | None, "The items most like this item instead."] = None,
    n: Annotated[int, Option("-n", help="Length of a list.")] = 10,
    explain: Annotated[bool, "Add the items of the history that say why."] = False,
    items: Annotated[
        Path | None, "File with item ids and titles, to show them."
    ] = None,
    output: Annotated[
        Path | None, OutputFile("File to write: .parquet, .csv or .jsonl.")
    ] = None,
    json_output: Json = False,
) -> None:
    """The best items for --user, for a new user with --history, or for --all into a file."""
    if sum(map(bool, (user, history, all_users, users, similar))) != 1:
        raise ConfigError(
            "ask for one of --user ID, --history ID,ID,..., --all, --users FILE, --similar ITEM"
        )
    if output is None and (all_users or users):
        raise ConfigError(
            "many lists go into a file: add -o recs.parquet (or .csv, .jsonl)"
        )
    if output is not None and (history or similar or explain):
        raise ConfigError(
            "-o writes lists of users: leave --history, --similar, --explain out"
        )
    model = load_model(run)
    if not json_output:
        typer.echo(models.fit_sentence(model), err=True)
    settings = filters.settings(model, items)
    if output is not None:
        if users is not None:
            from leporid.data import read_ids

            user = read_ids(users, "user", user_column, model.users)
        options = {**settings, "progress": not json_output}
        rows = ranking.write_recommendations(model, output, user, n, **options)
        count = len(model.users if user is None else user)
        line = f"wrote {output}: {rows:,} rows for {count:,} users"
        show(json_output, {"path": str(output), "users": count, "rows": rows}, line)
        return
    titles = _titles(model, items, filters)
    if similar is not None:
        if filters != FilterOptions():
            raise ConfigError("--similar takes no filters: leave --only, --exclude out")
        near = _entries(model.similar_items(similar, n), "similarity", titles)
        asked_item = model.items.external(model.items.index(similar))
        _print_lists(
            [{"similar to": asked_item, "items": near}], "similar to", json_output
        )
        return
    # Ids are shown as the log has them: numbers where all of its users have one.
    names: list[Any] = history or [
        model.users.external(model.users.index(u)) for u in user or []
    ]
    kind, asked = (
        ("user", names) if user else ("history", [parse_list(text) for text in names])
    )
    ranked = (model.recommend if user else model.recommend_history)(
        asked, n, **settings
    )
    lists = []
    for name, query, *chosen in zip(names, asked, *ranked, strict=True):
        entries = _entries(chosen, "score", titles)
        with warnings.catch_warnings(action="ignore", category=LeporidWarning):
            # Unknown items of a history were counted when it was ranked.
            for entry in entries if explain else ():
                reasons = model.explain(query, entry["item"])
                entry["because"] = _entries(reasons, model.reason_value, titles)
        about = {"reasons": model.reason_kind} if explain else {}
        lists.append({kind: name, "items": entries, **about})
    _print_lists(lists, kind, json_output)


def _entries(
    chosen: Sequence[Any], value: str, titles: dict[str, str] | None
) -> list[dict[str, Any]]:
    """Items and their scores as they are shown; None fills a short list."""
    return [
        {
            "item": item,
            value: float(score),
            **({"title": titles[str(item)]} if titles else {}),
        }
        for item, score in zip(*chosen, strict=True)
        if item is not None
    ]


def _print_lists(lists: list[dict[str, Any]], kind: str, json_output: bool) -> None:
    parts: list[Any] = []
    for entry in lists:
        title = f"{kind} {entry[kind]}"
        rows = [
            {"rank": str(rank), **row} for rank, row in enumerate(entry["items"], 1)
        ]
        for row in (row for row in rows if "because" in row):
            words = (
                f"{e.get('title', e['item'])} ({e.get('similarity', e.get('contribution')):.2f})"
                for e in row.pop("because")
            )
            row[f"because ({entry['reasons']})"] = ", ".join(words)
        parts.append((title, rows) if rows else f"{title}: no item")
    show(json_output, lists, *parts)


def _item_ids(
    model: Recommender, text: str, option: str, items: Path | None
) -> list[Any]:
    """Ids separated by commas, or the items of the model with COLUMN=VALUE."""
    column, equals, values = text.partition("=")
    if not equals or len(model.items.split_known([text])[0]):
        return parse_list(text)
    if items is None:
        raise DataError(
            f"{option} {text} needs the table with that column: add --items FILE"
        )
    meeting = model.item_columns(items).meeting(column, parse_list(values))
    return [str(item) for item in model.items.externals(meeting.nonzero()[0])]


def _titles(
    model: Recommender, path: Path | None, filters: FilterOptions
) -> dict[str, str] | None:
    """Titles by item id as text."""
    if path is None:
        return None

    from leporid.data import titles_of

    try:
        named = titles_of(model.items, path)
    except DataError:
        texts = [*(filters.only or []), *(filters.exclude or [])]
        if filters.rules or any("=" in text for text in texts):
            return None  # a table that is there for its other columns needs no titles
        raise
    ids = map(str, model.items.ids.to_pylist())
    return {key: info.title for key, info in zip(ids, named, strict=True)}


def extend(
    run: Annotated[Path, Argument(help="A run, or the folder of a saved model.")],
    output: Output,
    items: Annotated[
        Path | None, "Table or vectors of old and new items, by item id."
    ] = None,
    interactions: Annotated[Path | None, "Log with new items or new users."] = None,
    columns: Annotated[
        str, "Columns of the table, such as title,year:categories [all]."
    ] = "",
    cold_item_share: Annotated[
        float | None, "How often to list cold items [1: by share]."
    ] = None,
    length: Annotated[
        float | None, "Of new items' rows, in units of the old ones' median."
    ] = None,
    steps: Annotated[int, "Training steps that move the new rows alone."] = 0,
    json_output: Json = False,
) -> None:
    """Add the items and users that RUN does not know, by content and by shared users.

    All other weights stay as they are. The extended model is written to OUTPUT/model.
    """
    if items is None and interactions is None:
        raise ConfigError("say what is new: --items FILE, --interactions FILE or both")
    model = load_model(run)
    extended = model.extend(
        items,
        interactions,
        columns=tuple(parse_list(columns)),
        length=length,
        cold_item_share=cold_item_share,
        steps=steps,
        progress=not json_output,
    )
    users, items_known = len(extended.users), len(extended.items)
    report: dict[str, Any] = {
        "model": extended.name,
        "users": users,
        "items": items_known,
    }
    report |= {
        "new_users": users - len(model.users),
        "new_items": items_known - len(model.items),
    }
    words = "{model}: {new_items:,} items and {new_users:,} users are new, {items:,} and {users:,}"
    folder = extended.save(output / "model")
    said = f"{words.format_map(report)} in all"
    show(json_output, report, said, files=[folder])


def export(
    source: VectorSource,
    output: Output,
    format: FormatOptions,
    to: Annotated[str | None, "A system: faiss, parquet, pgvector, qdrant."] = None,
    address: Annotated[
        str | None, "--to qdrant, pgvector: a server to load as well."
    ] = None,
    check: Annotated[
        int, "--to: compare the lists of this many users; 0: none."
    ] = 1000,
    refresh: Annotated[
        Path | None, "--to: write what changed since this export, or run."
    ] = None,
    moved: Annotated[
        float | None, "--refresh: median lengths that a row may move [0.1]."
    ] = None,
    json_output: Json = False,
) -> None:
    """Write SOURCE's vectors and ids in another format, or with --to a model into a system."""
    from leporid.artifacts import read_json
    from leporid.interop import export_model, read_any, write_embeddings

    if (to is None and refresh is not None) or (refresh is None and moved is not None):
        raise ConfigError("--refresh needs --to, and --moved needs --refresh")
    if to is None:
        vectors = read_any(source)
        files = write_embeddings(vectors, output, **vars(format))
        about = {
            "users": vectors.users.n,
            "items": vectors.items.n,
            "dim": vectors.users.dim,
        }
        line = "{users:,} users, {items:,} items, {dim} columns".format_map(about)
        show(json_output, {**about, "format": format.format}, line, files=files)
        return
    if format.format != "safetensors":
        raise ConfigError(
            "--to writes the vectors a model ranks by: leave out --format"
        )
    where: dict[str, Any] = {"address": address, "name": format.name or "leporid"}
    if refresh is not None:
        where |= {"refresh": refresh} | ({} if moved is None else {"moved": moved})
    model = load_model(source)
    parity = export_model(model, output, to, check=check, **where)
    about = read_json(output / "export.json")
    lines = ["{users:,} users, {items:,} items, {width} columns".format_map(about)]
    for side in about.get("written", ()):
        written, gone = about["written"][side], about["deleted"][side]
        lines.append(
            f"{side}: {written:,} of {about[side]:,} written, {gone:,} deleted"
        )
    if about["product_ranks"] == "first stage":
        lines.append(
            "these vectors retrieve candidates, which the model itself then ranks"
        )
    if blank := about["users_without_history"]:
        lines.append(f"{blank:,} users have no history and were not checked")
    lines.append(str(parity) if parity else "lists not compared with the model's own")
    show(json_output, about, *lines, files=sorted(output.iterdir()))


@dataclass(frozen=True)
class _Service:
    """What `serve_forever` takes as it is."""

    compare: Annotated[Path | None, "A second run, shown beside the first."] = None
    items: Annotated[
        str | None, "File or data set with titles [items.parquet of the run]."
    ] = None
    host: Annotated[str, "Address to listen on."] = "127.0.0.1"
    port: Annotated[int, "Port to listen on; 0 takes a free one."] = 8000
    store: Annotated[
        str | None, "SQLite file or postgresql:// URL for new events [none]."
    ] = None
    share: Annotated[
        float | None, "Of users that --compare answers; lists go to --store."
    ] = None
    token: Annotated[
        str | None, "What a client must send [the variable LEPORID_TOKEN]."
    ] = None
    public_reading: Annotated[bool, "Reading needs no token."] = False
    include_seen: Annotated[
        bool | None, "Also items the user already has [as trained]."
    ] = None


def serve(
    run: Annotated[
        Path, Argument(help="Folder of `leporid train -o` or `leporid choose -o`.")
    ],
    service: _Service,
    cors: Annotated[
        list[str] | None, "Origin whose pages may ask: https://films.example."
    ] = None,
    allowed_hosts: Annotated[
        str, "Host names besides localhost, by commas; * for any."
    ] = "",
    limit: Annotated[
        list[str] | None, "A limit to change, NAME=VALUE: see docs/serve.md."
    ] = None,
) -> None:
    """Serve the recommendations of RUN over HTTP, with a page to try them at /.

    A client sends the token as `Authorization: Bearer TOKEN`; POST /reload needs the one in
    LEPORID_ADMIN_TOKEN. Without either, everyone who reaches the port may read, and only a server
    on loopback may be written to.
    """
    import_extra("uvicorn", "the service", "serve")

    from leporid.serve import ServeLimits, serve_forever

    limits = ServeLimits.from_dict(parse_settings(limit, "--limit"))
    hosts = parse_list(allowed_hosts)
    serve_forever(
        run, cors=cors or (), allowed_hosts=hosts, limits=limits, **vars(service)
    )
