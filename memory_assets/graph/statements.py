"""Search for statements that replace older ones, sentence by sentence and across sources.

A memory is split into statements when it changes. `memory_assets.language.changes` judges pairs that share rare words of one project;
the catalog keeps the pairs where the newer statement may replace the older (`graph_changes`).
"""

import math
import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from memory_assets.graph.known_names import project_name
from memory_assets.graph.outdated import strip_marks
from memory_assets.graph.rules import DOUBT
from memory_assets.language.changes import Change, announces, find_changes, is_certain, is_hearsay, topic_keys, with_subject
from memory_assets.language.english import pattern, word_set
from memory_assets.language.statements import dated, difference, exchange_values, find_replaced, read_statement
from memory_assets.language.words import prose_sentences, words
from memory_assets.models import Kind, Memory, RelationType, is_time_guessed
from memory_assets.sources.projects import slug_of
from memory_assets.stores.schema import table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

STATEMENT_SCHEMA = table("graph_statements").arrow()
CHANGE_SCHEMA = table("graph_changes").arrow()

StatementRow = dict[str, Any]
"""Row of `graph_statements`, plus `of_memory`: the number of statements of its memory."""
_MAX_STATEMENTS = 60
_SHORT = 2
"""Statements of a memory up to which the network reads all pairs; in longer memories it finds changes where there are none."""
_MANY_PAIRS = 256
"""Pairs of statements of two memories above which words alone must leave little doubt: among so many some look like a change."""
_POSSIBLE, _PLAUSIBLE, _LIKELY, _CLEAR = 0.12, 0.4, 0.6, 0.85
"""Probability by words from which the network reads a pair of longer notes that share most words, of others, of longer turns, and of
two long notes."""
_LEAST_WORDS = 3
_LATER_BY = timedelta(days=1)
"""Distance in time from which a different value is a change rather than a contradiction."""
_MOMENTARY_KINDS = frozenset({Kind.RATING, Kind.REFLECTION, Kind.SESSION})
"""Kinds whose memories describe one moment, so that a later one replaces nothing."""
_STATED, _DATED, _OPEN = 0.9, 0.75, 0.7
"""Confidence of a change that the newer statement announces, of one that the dates imply, and of a contradiction."""
_YEAR = 4
"""Digits of a year, which is not the number of a series."""
_HEADING = re.compile(r"^#+\s+(.*)")
_HOME_SLUG = re.compile(r"-(?:(?:home|Users)-[^-]+|root)")
_LINK = re.compile(r"\[\[[^\]]*\]\]|https?://\S+")
_WORD_OF_TITLE = re.compile(r"[^\W_]+")

_HUB = 60
"""Statements that may share a word before the word no longer makes a pair worth judging."""
_CANDIDATES = f"""
CREATE TEMP TABLE now_statements AS
    SELECT *, count(*) OVER (PARTITION BY memory_id) AS of_memory
    FROM (FROM graph_statements WHERE memory_id NOT IN (FROM touched) UNION ALL BY NAME FROM changed_statements);
CREATE TEMP TABLE keyed AS
    SELECT DISTINCT memory_id, place, unnest(list_concat(keys, list_transform(about, word -> word[:5]))) AS key FROM now_statements;
CREATE TEMP TABLE weights AS
    SELECT key, 1 / log2(1 + count(*)) AS weight FROM keyed GROUP BY key HAVING count(*) BETWEEN 2 AND {_HUB};
CREATE TEMP TABLE sharing AS
    SELECT a.memory_id AS one_id, a.place AS one_place, b.memory_id AS other_id, b.place AS other_place, count(*) AS shared,
           sum(weight) AS weight
    FROM keyed a SEMI JOIN changed_statements c ON c.memory_id = a.memory_id JOIN weights USING (key) JOIN keyed b USING (key)
    WHERE b.memory_id < a.memory_id OR (b.memory_id > a.memory_id AND b.memory_id NOT IN (SELECT memory_id FROM changed_statements))
    GROUP BY ALL;
"""
_CANDIDATES_EACH = 6
_PAIRS = f"""
CREATE TEMP TABLE statement_pairs AS
    WITH short AS (SELECT memory_id, place, announces, session, len(keys) AS topics, scope, said_at, created_at FROM now_statements),
    pairs AS (
        SELECT s.shared, s.weight, a, b,
               CASE WHEN abs(date_diff('day', a.said_at, b.said_at)) >= 1 THEN a.said_at > b.said_at
                    -- a guessed day is the last on which it may have been said
                    WHEN a.said_at IS NULL AND a.created_at < b.said_at THEN false
                    WHEN b.said_at IS NULL AND b.created_at < a.said_at THEN true END AS is_later,
               is_later IS NULL AND a.announces AND b.announces AS is_open,
               coalesce(is_later, if(a.announces <> b.announces, a.announces,
                   (a.created_at, a.memory_id, a.place) > (b.created_at, b.memory_id, b.place))) AS is_newer
        FROM sharing s
        JOIN short a ON a.memory_id = one_id AND a.place = one_place
        JOIN short b ON b.memory_id = other_id AND b.place = other_place
        WHERE a.scope = '' OR b.scope = '' OR a.scope = b.scope OR ends_with(a.scope, '-' || b.scope) OR ends_with(b.scope, '-' || a.scope)
    ),
    directed AS (
        SELECT shared, weight, if(is_newer, b, a) AS old, if(is_newer, a, b) AS new FROM pairs
        UNION ALL SELECT shared, weight, if(is_newer, a, b), if(is_newer, b, a) FROM pairs WHERE is_open
    )
    SELECT old.memory_id AS old_id, old.place AS old_place, new.memory_id AS new_id, new.place AS new_place FROM directed
    WHERE (new.announces OR old.session = '' OR new.session = '')
      AND (new.announces OR shared * 2 >= least(old.topics, new.topics))
    QUALIFY row_number() OVER (PARTITION BY new.memory_id, new.place ORDER BY weight DESC, old.memory_id, old.place) <= {_CANDIDATES_EACH}
"""
_PAIRED = """
    FROM now_statements WHERE (memory_id, place) IN (
        SELECT (old_id, old_place) FROM statement_pairs UNION SELECT (new_id, new_place) FROM statement_pairs
    )
"""


def read_statements(memories: Sequence[Memory]) -> pa.Table:
    """Return the rows of `graph_statements` of these memories."""
    return pa.Table.from_pylist([row for memory in memories for row in _statements(memory)], schema=STATEMENT_SCHEMA)


def _statements(memory: Memory) -> Iterator[dict[str, Any]]:
    if memory.kind in _MOMENTARY_KINDS:
        return
    is_guessed = is_time_guessed(memory.metadata)
    title = " ".join(_WORD_OF_TITLE.findall(memory.title))
    of_memory = {
        "memory_id": memory.id,
        "scope": scope_of(memory.project),
        "session": memory.session,
        "author": memory.author,
        "created_at": memory.created_at,
    }
    compared = (
        each
        for each in list_statements(memory.content)
        if not (introduces(each[1]) or pattern("replacements.advice").match(each[1]))
    )
    for place, (heading, text, _) in enumerate(islice(compared, _MAX_STATEMENTS)):
        own = dated(text, memory.created_at) or dated(heading, memory.created_at)
        yield of_memory | {
            "place": place,
            "text": text,
            "about": list(dict.fromkeys(read_statement(f"{title} {heading}").content)),
            "keys": topic_keys(text),
            "announces": announces(text),
            "said_at": own or (None if is_guessed else memory.created_at),
        }


def list_statements(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield, for each sentence that states something: the heading above it, its plain text, and its text with marks and line breaks.

    A block of code states nothing, and neither do two words.
    """
    return (each for each in split_statements(text) if not is_short(each[1]))


def split_statements(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield what `list_statements` does, and short sentences, too."""
    heading = ""
    for sentence in prose_sentences(text):
        if found := _HEADING.match(sentence):
            heading = found[1]
            continue
        plain = strip_marks(sentence)
        if not plain.endswith("?"):
            yield heading, plain, sentence


def is_short(statement: str) -> bool:
    """Whether a statement has too few words to state something alone."""
    return len(words(_LINK.sub(" ", statement))) < _LEAST_WORDS


def introduces(statement: str) -> bool:
    """Whether a statement only introduces the list after it."""
    return statement.endswith(":")


def scope_of(project: str) -> str:
    """Return the key of a memory's project: the slug of its folder, or its name; empty for none and for a home folder."""
    slug = slug_of(project).lower()
    is_home = bool(_HOME_SLUG.fullmatch(slug_of(project))) or (
        slug.startswith("-") and "/" in project and not project_name(project)
    )
    return "" if is_home else slug


def find_candidates(connection: "DuckDBPyConnection") -> list[tuple[StatementRow, StatementRow]]:
    """Return pairs of an older and a newer statement, at least one of a changed memory, where the newer may replace the older.

    If both announce a change and no date orders them, the pair is returned in both directions. `connection` leads to the catalog, with
    the statements as of the last build, and must show `changed_statements` and `touched`.
    """
    connection.execute(_CANDIDATES)
    connection.execute(_PAIRS)
    paired = connection.execute(_PAIRED).to_arrow_table().to_pylist()
    rows = {(row["memory_id"], row["place"]): row for row in paired}
    ends = connection.execute("FROM statement_pairs").fetchall()
    pairs = ((rows[each[:2]], rows[each[2:]]) for each in ends)
    return [(old, new) for old, new in pairs if not (_speak_of_themselves(old, new) or _are_of_a_series(old, new))]


def find_replacements(pairs: Sequence[tuple[StatementRow, StatementRow]]) -> pa.Table:
    """Return rows of `graph_changes`: the sure and the possible replacements among `pairs`. Takes milliseconds a pair.

    Of a pair in both directions the likelier one is kept.
    """
    found = find_changes(
        [
            (
                with_subject(old["text"], " ".join(old["about"]), new["text"]),
                with_subject(new["text"], " ".join(new["about"]), old["text"]),
            )
            for old, new in pairs
        ],
        [_network_threshold(old, new) for old, new in pairs],
    )
    stated = (Change(1.0, is_sure=True) if find_replaced(old["text"], new["text"]) else None for old, new in pairs)
    changes = [
        (old, new, change)
        for (old, new), one, other in zip(pairs, stated, found, strict=True)
        if (change := one or other) and (change.is_sure or not is_hearsay(new["text"]))
    ]
    likeliest = {
        frozenset((each["memory_id"], each["place"]) for each in (old, new)): (old, new, change)
        for old, new, change in sorted(changes, key=lambda each: (_is_clear(each[1]) - _is_clear(each[0]), each[2].by_words))
    }
    return pa.Table.from_pylist([_replacement(*each) for each in likeliest.values()], schema=CHANGE_SCHEMA)


def _network_threshold(old: StatementRow, new: StatementRow) -> float:
    """Return the probability by words from which the network reads a pair; no pair of a longer note reaches it if no day is known."""
    if max(old["of_memory"], new["of_memory"]) <= _SHORT:
        return 0.0
    if not (old["said_at"] or new["said_at"]):
        return math.inf
    if old["of_memory"] * new["of_memory"] > _MANY_PAIRS:
        return _CLEAR
    is_turn = any(each["session"] and each["author"] for each in (old, new))
    return _LIKELY if is_turn else _POSSIBLE if _share_most_words(old, new) else _PLAUSIBLE


def _share_most_words(old: StatementRow, new: StatementRow) -> bool:
    """Whether the newer statement has half of the older one's topic words, or the older one more than half of the newer one's."""
    was, now = (set(each["keys"]) for each in (old, new))
    titled = [keys.union(word[:5] for word in each["about"]) for keys, each in ((was, old), (now, new))]
    return 2 * len(was & titled[1]) >= len(was) or 2 * len(now & titled[0]) > len(now)


def _is_clear(statement: StatementRow) -> bool:
    """Whether a statement announces a change in clear words; "takes" and "left" mostly announce none."""
    return bool(pattern("statements.change").search(statement["text"]))


def _have_different_authors(old: StatementRow, new: StatementRow) -> bool:
    return old["author"] != new["author"] and bool(old["author"] and new["author"])


def _speak_of_themselves(old: StatementRow, new: StatementRow) -> bool:
    own = word_set("question.first_person")
    return _have_different_authors(old, new) and all(not own.isdisjoint(words(each["text"])) for each in (old, new))


def _are_of_a_series(old: StatementRow, new: StatementRow) -> bool:
    """Whether titles or texts number two things ("Store 4", "Store 2") and the newer statement announces no clear change."""
    if _is_clear(new):
        return False
    one, other = (set(each["about"]) for each in (old, new))
    numbers = {word for word in one | other if word.isdecimal()}
    if one ^ other == numbers and [len(each & numbers) for each in (one, other)] == [1, 1] and len(max(numbers, key=len)) < _YEAR:
        return True
    numbered = pattern("statements.numbered")
    named, renamed = (dict(numbered.findall(each["text"].lower())) for each in (old, new))
    differ = any(named[name] != renamed[name] for name in named.keys() & renamed.keys())
    return differ and exchange_values(*(numbered.sub(" ", each["text"]) for each in (old, new)))


def _tells_order(old: StatementRow, new: StatementRow) -> bool:
    """Whether the newer statement says that something changed; if no day is known, by naming both or in clear words that only it has."""
    if old["said_at"] or new["said_at"]:
        return bool(new["announces"])
    return bool(find_replaced(old["text"], new["text"])) or _is_clear(new) > _is_clear(old)


def _replacement(old: StatementRow, new: StatementRow, change: Change) -> dict[str, Any]:
    is_later = bool(old["said_at"] and new["said_at"]) and abs(new["said_at"] - old["said_at"]) >= _LATER_BY
    differs = difference(old["text"], new["text"])
    is_ordered = not is_hearsay(new["text"]) and (_tells_order(old, new) or (is_later and not _have_different_authors(old, new)))
    if not change.is_sure or (is_ordered and not is_certain(old["text"], new["text"], change.probability)):
        kind, confidence, note = RelationType.RELATES_TO, DOUBT * change.probability, f"perhaps replaced: {differs}"
    elif is_ordered:
        denied = (read_statement(old["text"]).denials - read_statement(new["text"]).denials) % 2
        kind = RelationType.INVALIDATED_BY if denied else RelationType.EVOLVED_INTO
        confidence = _STATED if new["announces"] else _DATED
        says = "the newer says that it changed" if new["announces"] else "a later day says otherwise"
        note = f"{says}: {differs}"
    else:
        kind, confidence, note = RelationType.CONTRADICTS, _OPEN, differs
    return {
        **{f"{age}_id": each["memory_id"] for age, each in (("old", old), ("new", new))},
        **{f"{age}_{name}": each[name] for age, each in (("old", old), ("new", new)) for name in ("place", "text")},
        "said_at": new["said_at"] or new["created_at"],
        "type": kind,
        "probability": change.probability,
        "confidence": confidence,
        "note": note,
    }
