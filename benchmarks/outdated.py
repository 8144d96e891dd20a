"""Measure which sentences of memory folders a run marks as outdated, on folders whose author had not seen the code.

    python benchmarks/outdated.py [--sets benchmarks/sets/silos_more]

`outdated` are facts that changed; `constants`, sentences that hold but look as if they had changed; `undecided`, pairs that contradict
each other. Two sentences match if one contains all words of the other.
"""

import argparse
import json
import os
import re
import tempfile
from pathlib import Path

from memory_assets.graph.outdated import StatementChange, read_changes
from memory_assets.operations.run import run
from memory_assets.settings import load_settings
from memory_assets.tenants import Tenant

SETS = Path(__file__).parent / "sets" / "silos_more"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=Path, default=SETS)
    folder = parser.parse_args().sets
    changes = read(folder / "changes.jsonl")
    constants = [each["sentence"] for each in read(folder / "constants.jsonl")]
    found = find_changes(folder)
    marked = {each.old_text for each in found if each.verdict == "replaced"}
    doubted = {each.old_text for each in found if each.verdict == "perhaps replaced"}
    facts = [each for each in changes if "holds" in each]
    pairs = [each for each in changes if "one" in each]
    outdated = [each for each in facts if is_among(each["outdated"], marked)]
    contrary = {text for each in found if each.verdict == "contradicted" for text in (each.old_text, each.new_text)}
    print(f"sentences marked      {len(marked)}")
    print(f"outdated, marked      {len(outdated)} of {len(facts)}")
    print(
        f"  without a word      {sum(not each['says_so'] for each in outdated)} of {sum(not each['says_so'] for each in facts)}"
    )
    print(f"outdated, perhaps     {sum(is_among(each['outdated'], doubted) for each in facts)} of {len(facts)}")
    print(f"what holds, marked    {sum(is_among(each['holds'], marked) for each in facts)} of {len(facts)}")
    print(f"constants, marked     {sum(is_among(each, marked) for each in constants)} of {len(constants)}")
    print(f"constants, perhaps    {sum(is_among(each, doubted) for each in constants)} of {len(constants)}")
    undecided = [is_among(each["one"], marked) or is_among(each["other"], marked) for each in pairs]
    print(f"undecided, marked     {sum(undecided)} of {len(pairs)}")
    told = [is_among(each["one"], contrary) and is_among(each["other"], contrary) for each in pairs]
    print(f"undecided, said so    {sum(told)} of {len(pairs)}")


def read(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def find_changes(folder: Path) -> list[StatementChange]:
    """Ingest the folders and return the changes that the run finds."""
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(HOME=home, MEMORY_DATA_DIR=f"{home}/data", MEMORY_CLAUDE_PROJECTS_DIR=str(folder.resolve()))
        tenant = Tenant(load_settings())
        run(tenant, lambda *_: None, lambda _: None)
        with tenant.catalog.read() as connection:
            return read_changes(connection)


def is_among(sentence: str, texts: set[str]) -> bool:
    wanted = words_of(sentence)
    return any(wanted in (text := words_of(each)) or text in wanted for each in texts)


def words_of(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


if __name__ == "__main__":
    main()
