"""Measure the quality and speed of the embedders: `python benchmarks/embedders.py`.

Quality is measured on a developer's invented notes, each with a question that shares few words with it: recall at 1 and 5
and the mean reciprocal rank of the question's note among all notes, by cosine. The same questions are asked of long texts,
each made of 25 notes: there the rank is that among the texts without the answer. Times are taken on one core; texts per
second are counted in processor time, so that other load on the machine does not change them.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from memory_assets.language.embedders import Embedder, describe_choice, open_embedder

LONG_TEXTS = 40
NOTES_IN_A_LONG_TEXT = 25
SEED = 3
COLD_START = """
import sys
from memory_assets.language.embedders import open_embedder
open_embedder(sys.argv[1]).embed(["why did we leave MongoDB"])
"""

# Notes about a developer's invented project, each with the question that it answers.
NOTES: tuple[tuple[str, str], ...] = (
    (
        "Bram moved the nightly import of Heron from cron to a systemd timer, as cron hid its failures.",
        "how are scheduled jobs started now that we no longer use crontab",
    ),
    (
        "Heron's import runs at 02:30 UTC, since the supplier uploads its files until two o'clock.",
        "at what time of night does the data load begin",
    ),
    (
        "We left MongoDB for PostgreSQL in Atlas because reports needed joins across four collections.",
        "why did we switch away from the document database",
    ),
    (
        "PostgreSQL autovacuum could not keep up with the events table; its scale factor is now 0.02.",
        "dead rows piling up in a big table",
    ),
    ("Dana prefers pytest with plain asserts and dislikes unittest classes.", "which test framework should I use for her code"),
    (
        "Dana wants pull requests below 300 changed lines; larger ones are split before review.",
        "how big may a change be before somebody looks at it",
    ),
    (
        "Chidi reviews everything that touches authentication, and nobody merges there without him.",
        "who has to approve a modification of the login code",
    ),
    (
        "The login token expires after 15 minutes; the refresh token lasts 30 days and is rotated.",
        "how long does a session stay valid",
    ),
    ("Deploys to production are frozen from Friday noon until Monday morning.", "may I release something on the weekend"),
    (
        "A release of Quill needs a tag, a changelog entry and a green run of the nightly suite.",
        "what must be done before we ship a new version",
    ),
    (
        "The staging server is called marten and has 8 GB of memory, a quarter of what production has.",
        "why does the test environment run out of RAM so quickly",
    ),
    (
        "Production's TLS certificate is renewed by certbot, but nginx has to be reloaded afterwards.",
        "browser complains about an expired certificate after renewal",
    ),
    (
        "The flaky checkout test waited for an animation; it now waits for the order number instead.",
        "intermittent failure in the end-to-end purchase scenario",
    ),
    (
        "Three integration tests fail on macOS because its file system ignores letter case.",
        "why do some checks break on Apple laptops only",
    ),
    (
        "Use ruff for linting and formatting; black, isort and flake8 were removed in May.",
        "which tool checks code style these days",
    ),
    (
        "Type checking runs with basedpyright in standard mode; mypy took four minutes and was dropped.",
        "what replaced the slow static analyser",
    ),
    ("Never log request bodies: one contained a customer's card number in clear text.", "what caused the privacy incident"),
    (
        "Log lines are JSON in production and pretty in a terminal; LOG_FORMAT decides.",
        "how do I get human-readable output from the logger",
    ),
    (
        "The memory leak in the worker came from a cache of compiled templates without a limit.",
        "why did the background process grow until it was killed",
    ),
    (
        "Worker processes are recycled after 1,000 jobs to keep fragmentation in check.",
        "after how many tasks does a consumer restart",
    ),
    (
        "RabbitMQ was replaced by a PostgreSQL table with SKIP LOCKED, as we have 20 jobs a minute.",
        "what do we use as message queue and why is it enough",
    ),
    (
        "A job is retried five times with doubling waits, then it goes to the dead letter table.",
        "what happens when a task keeps failing",
    ),
    (
        "The public API allows 60 requests a minute per key and answers 429 beyond that.",
        "how is throttling of external clients configured",
    ),
    (
        "Version 1 of the API is switched off in September; two partners still call it.",
        "who is still on the old interface and until when does it exist",
    ),
    (
        "Pagination uses cursors since offsets skipped rows while others were inserted.",
        "why are page numbers not supported in list endpoints",
    ),
    (
        "Money is stored as integer cents; floats once made an invoice differ by a penny.",
        "what type do amounts have in the database",
    ),
    ("All times are stored in UTC and shown in the user's zone, after the October bug.", "how do we deal with daylight saving"),
    (
        "The invoice of March showed the wrong VAT for Norway because the rate table was cached.",
        "a tax figure was incorrect for a Scandinavian customer",
    ),
    (
        "Invoices are numbered without gaps per year, which the auditors insist on.",
        "can we skip an identifier when a bill is cancelled",
    ),
    (
        "Search in Quill uses BM25 with stemming; vectors alone missed part numbers.",
        "why did we keep keyword matching beside embeddings",
    ),
    ("Part numbers look like QX-4410-B and must never be split by the tokenizer.", "how should product codes be indexed"),
    ("The embedding model was changed in June, so every document had to be encoded again.", "what made us rebuild all vectors"),
    (
        "DuckDB allows one writing process; a second one fails at once with a lock error.",
        "two programs cannot open the analytics file together",
    ),
    (
        "The analytics file is written to a temporary name and renamed, so that readers never see half of it.",
        "how do we avoid that somebody reads an incomplete export",
    ),
    ("Backups go to a bucket in another region every six hours and are kept for 35 days.", "how far back can we restore"),
    (
        "The restore drill of April took 50 minutes; the goal is under half an hour.",
        "how quickly could we recover after losing everything",
    ),
    (
        "Ines is on call in odd weeks, Tomek in even ones; swaps are announced in the ops channel.",
        "whom do I page at night this week",
    ),
    (
        "Alerts fire only on symptoms that users feel, such as slow pages, not on CPU load.",
        "what is our policy for waking people up",
    ),
    (
        "The dashboard for latency shows the 99th percentile, as averages hid the slow tenants.",
        "which metric tells us that some customers wait too long",
    ),
    (
        "Tenant data is separated by database schema; a query without a tenant raises an error.",
        "how do we keep customers' records apart",
    ),
    (
        "Feature flags live in a YAML file in the repository and are removed after two releases.",
        "where do I toggle an unfinished function",
    ),
    ("The React upgrade waits until the date picker library supports version 19.", "what blocks the front-end framework update"),
    (
        "We chose Svelte for the admin pages since they need little state and load on slow lines.",
        "why is the back office not written in the usual framework",
    ),
    ("Buttons have a minimum height of 44 pixels so that they can be hit on a phone.", "accessibility rule for touch targets"),
    (
        "Colours of the chart were changed, as red and green looked alike to two of our users.",
        "problem for people who are colour blind",
    ),
    ("Docker images are built from Debian slim; Alpine broke a wheel with its C library.", "why not use the smallest base image"),
    (
        "The build cache in CI is keyed by the lock file, which halved the pipeline to six minutes.",
        "what made continuous integration faster",
    ),
    ("Dependencies are updated on the first Tuesday of a month in one pull request.", "when do we bump third-party packages"),
    ("A pinned version of urllib3 stays until the proxy at the Lyon office speaks TLS 1.3.", "why is one library held back"),
    (
        "Rust was tried for the parser and was eleven times faster than Python, so it stays.",
        "was rewriting a component in another language worth it",
    ),
    (
        "The CSV parser must accept semicolons and Latin-1, since Lyon exports from an old Excel.",
        "which file quirks come from the French office",
    ),
    (
        "Large uploads go straight to object storage with a signed URL that lives for ten minutes.",
        "how do clients send big files without passing through our server",
    ),
    ("Images are resized on first request and then cached; resizing at upload took too long.", "when are thumbnails generated"),
    ("Secrets come from the vault at start-up; environment files in the repository are forbidden.", "where are passwords kept"),
    (
        "The vault's root key is split among five people, of whom any three can open it.",
        "how many persons are needed to unseal the credential store",
    ),
    ("Yusuf leaves at the end of July and hands the billing service to Marta.", "who takes over payments in summer"),
    ("Marta works from Lisbon and is offline on Wednesday afternoons.", "when can't I reach our Portuguese colleague"),
    (
        "The stand-up meeting was replaced by a written note before ten, which everyone likes better.",
        "how does the team share daily progress",
    ),
    (
        "Architecture decisions are one page each in docs/adr and are never edited, only superseded.",
        "where do we write down why something was designed that way",
    ),
    (
        "Say what failed and what to do next in every error message; codes alone do not help.",
        "guideline for wording of failures shown to users",
    ),
    (
        "Recursive deletion of the upload folder was caused by an empty variable in a shell script.",
        "how did we lose customers' files that one time",
    ),
    ("Shell scripts start with set -euo pipefail and are checked by shellcheck.", "conventions for bash"),
    ("Gradual roll-out starts with two per cent of tenants and doubles every hour.", "how do we introduce risky changes safely"),
    (
        "The rollback of 14 June failed since the migration had dropped a column.",
        "why could we not return to the previous version",
    ),
    (
        "Migrations must work with the old and the new code; columns are dropped one release later.",
        "rule for changing the schema without downtime",
    ),
    (
        "The recommendation job was cut from three hours to nine minutes by using a hash join.",
        "what sped up the slow batch computation",
    ),
    ("An N+1 query on the order page was found with the query counter in the tests.", "page issues one SQL statement per row"),
    (
        "Websockets are closed by the corporate proxy after a minute, so a ping is sent every 30 seconds.",
        "live updates stop for users in big companies",
    ),
    (
        "Mobile clients cache answers for a day and must survive a week without a connection.",
        "what should the app do when the phone is offline",
    ),
    ("The licence of the map tiles forbids caching them for longer than a month.", "legal limit for storing geographic images"),
)


@dataclass(frozen=True, slots=True)
class Quality:
    """Recall at 1 and 5 and mean reciprocal rank, each from 0 to 1."""

    recall_at_1: float
    recall_at_5: float
    mrr: float

    @classmethod
    def of(cls, ranks: list[int]) -> "Quality":
        """Summarise the ranks of the right answers, counted from 1."""
        found = np.array(ranks)
        return cls(float((found <= 1).mean()), float((found <= 5).mean()), float((1 / found).mean()))


@dataclass(frozen=True, slots=True)
class Figures:
    """Measurements of one embedder; each name ends in its unit."""

    name: str
    cold_start_s: float
    question_ms: float
    question_p95_ms: float
    texts_per_s: float
    notes: Quality
    long_texts: Quality


def note_ranks(embedder: Embedder) -> list[int]:
    similarity = embedder.embed([question for _, question in NOTES]) @ embedder.embed([note for note, _ in NOTES]).T
    return [1 + int((row > row[place]).sum()) for place, row in enumerate(similarity)]


def long_text_ranks(embedder: Embedder) -> list[int]:
    draw = random.Random(SEED)
    members = [draw.sample(range(len(NOTES)), NOTES_IN_A_LONG_TEXT) for _ in range(LONG_TEXTS)]
    texts = embedder.embed([" ".join(NOTES[place][0] for place in places) for places in members])
    ranks: list[int] = []
    for place, question in enumerate(embedder.embed([question for _, question in NOTES])):
        similarity = texts @ question
        without = [similarity[text] for text, places in enumerate(members) if place not in places]
        ranks += [
            1 + sum(other > similarity[text] for other in without) for text, places in enumerate(members) if place in places
        ]
    return ranks


def processor_seconds(work: Callable[[], npt.NDArray[np.float32]]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def measure(spec: str, repeats: int) -> Figures:
    cold: list[float] = []
    for _ in range(repeats):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", COLD_START, spec], check=True)
        cold.append(time.perf_counter() - begin)
    embedder = open_embedder(spec)
    notes = [note for note, _ in NOTES]
    embedder.embed(notes[:1])
    asked: list[float] = []
    for _ in range(repeats):
        for _, question in NOTES:
            begin = time.perf_counter()
            embedder.embed([question])
            asked.append(1e3 * (time.perf_counter() - begin))
    bulk = notes * 5
    return Figures(
        name=embedder.name.replace(str(Path.home()), "~"),
        cold_start_s=statistics.median(cold),
        question_ms=statistics.median(asked),
        question_p95_ms=statistics.quantiles(asked, n=20)[-1],
        texts_per_s=len(bulk) / min(processor_seconds(lambda: embedder.embed(bulk)) for _ in range(repeats)),
        notes=Quality.of(note_ranks(embedder)),
        long_texts=Quality.of(long_text_ranks(embedder)),
    )


def default_specs() -> list[str]:
    """Return the installed offline embedders."""
    return [spec for spec in ("bge-small", "e5-multilingual") if describe_choice(spec).ready]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the quality and speed of the embedders.")
    parser.add_argument(
        "--embedder", action="append", help="embedder setting to measure; may be repeated (default: all installed)"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    if sys.platform == "linux":
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    figures = [measure(spec, arguments.repeats) for spec in arguments.embedder or default_specs()]
    if arguments.json:
        print(json.dumps([asdict(row) for row in figures], indent=2))
        return
    print(f"{len(NOTES)} notes and questions; {LONG_TEXTS} long texts of {NOTES_IN_A_LONG_TEXT} notes; one core")
    print(
        f"{'embedder':34} {'cold start':>10} {'question p50/p95':>17} {'texts/s':>8}"
        f"   {'notes R@1  R@5   MRR':>21}   {'long R@1  R@5   MRR':>20}"
    )
    for row in figures:
        scores = "   ".join(
            f"{quality.recall_at_1:9.3f} {quality.recall_at_5:.3f} {quality.mrr:.3f}" for quality in (row.notes, row.long_texts)
        )
        print(
            f"{row.name[-34:]:34} {row.cold_start_s:8.2f} s {row.question_ms:6.2f} / {row.question_p95_ms:5.2f} ms"
            f" {row.texts_per_s:8.0f}   {scores}"
        )


if __name__ == "__main__":
    main()
