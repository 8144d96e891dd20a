"""Measure how a session's opening brief reports facts that changed, on memory folders whose author had not seen the code.

    python benchmarks/brief.py [--sets benchmarks/sets/silos] [--tokens 800]

A line counts as telling a sentence if it has nine tenths of the sentence's words. `holds told` is the share of current facts that the
brief of their project tells. `outdated as holding` is the share of replaced facts that it tells without a mark. `undecided said so` looks
at undecided pairs of which the brief tells at least one: the share in which every sentence told is marked. `any told` counts every
sentence of the project's files: how much of everything written fits.
"""

import argparse
import json
import os
import re
import tempfile
from pathlib import Path

from memory_assets.hook_settings import HookSettings
from memory_assets.learn.brief import BULLET
from memory_assets.learn.session_start import Hook, session_start
from memory_assets.operations.run import run
from memory_assets.settings import load_settings
from memory_assets.tenants import Tenant

SETS = Path(__file__).parent / "sets" / "silos"
WORD = re.compile(r"\w+")
MARKS = re.compile(r"undecided|outdated|replaced by")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=Path, default=SETS)
    parser.add_argument("--tokens", type=int, default=800)
    given = parser.parse_args()
    changes = [json.loads(line) for line in (given.sets / "changes.jsonl").read_text(encoding="utf-8").splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(HOME=folder, MEMORY_DATA_DIR=f"{folder}/data", MEMORY_CLAUDE_PROJECTS_DIR=str(given.sets.resolve()))
        tenant = Tenant(load_settings())
        run(tenant, lambda *_: None, lambda _: None)
        projects = sorted({each["project"] for each in changes})
        told = {project: lines_of(tenant, project, given.tokens) for project in projects}
    holds = outdated = undecided = said_so = 0
    changed = [each for each in changes if "holds" in each]
    for each in changed:
        lines = told[each["project"]]
        holds += any(tells(line, each["holds"]) for line in lines)
        outdated += any(tells(line, each["outdated"]) and not MARKS.search(line) for line in lines)
    for each in changes:
        if "one" in each:
            lines = [line for line in told[each["project"]] if tells(line, each["one"]) or tells(line, each["other"])]
            undecided += bool(lines)
            said_so += bool(lines) and all(MARKS.search(line) for line in lines)
    print(f"holds told           {holds} of {len(changed)}")
    print(f"outdated as holding  {outdated} of {len(changed)}")
    print(f"undecided said so    {said_so} of {undecided}")
    for project, lines in told.items():
        print(f"{project}: {len(lines)} lines, {sum(bool(MARKS.search(line)) for line in lines)} of them marked")


def lines_of(tenant: Tenant, project: str, tokens: int) -> list[str]:
    settings = HookSettings(tenant.settings.data_dir, tenant.name, "on", tokens, 5, session_summary="off")
    # The folder is named after the slug of the project's directory, which does not exist on this machine.
    text = session_start(settings, Hook(directory=project.replace("-", "/")))
    return [line for line in text.splitlines() if line.startswith(BULLET)]


def tells(line: str, sentence: str) -> bool:
    wanted = {word.casefold() for word in WORD.findall(sentence)}
    return len(wanted & {word.casefold() for word in WORD.findall(line)}) >= 0.9 * len(wanted)


if __name__ == "__main__":
    main()
