"""Which entry of its home a candidate is for: the one of its name and project, one that says the same, or a new one."""

from collections import defaultdict
from itertools import chain, count
from pathlib import PurePath

from memory_assets.learn.candidates import Candidate, said_by
from memory_assets.learn.canonical import HOME_OF
from memory_assets.learn.homes import CanonicalEntry, Homes
from memory_assets.models import Kind
from memory_assets.sources.projects import slug_of


class Standing:
    """The entries of the homes, by what they are called and by what they say."""

    def __init__(self, homes: Homes) -> None:
        """Look through all of them once."""
        self._called: dict[tuple[Kind, str], CanonicalEntry] = {}
        self._saying: dict[tuple[Kind, tuple[str, str]], list[str]] = defaultdict(list)
        for entry in homes.entries:
            if self._called.setdefault((entry.kind, entry.name), entry) is entry:
                self._saying[entry.kind, said_by(entry.description, entry.body)].append(entry.name)

    def called(self, kind: Kind, name: str) -> CanonicalEntry | None:
        """The entry of a name in its home."""
        return self._called.get((kind, name))

    def saying(self, kind: Kind, name: str, said: tuple[str, str]) -> list[str]:
        """What the entries are called that say it under a name, with or without a project behind it."""
        found = self._saying.get((kind, said), ())
        return [called for called in found if called == name or called.startswith(f"{name} (")]


def by_entry(kind: Kind, name: str, group: list[Candidate], standing: Standing, told: list[str]) -> dict[str, list[Candidate]]:
    """Return which candidates of one name are for which entry, by the entry's name: that name, or with its project behind it."""
    if kind is Kind.FEEDBACK:
        return {name: group}
    of_project: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in sorted(group, key=lambda each: each.written_at, reverse=True):
        of_project[candidate.project].append(candidate)
    found: dict[str, list[Candidate]] = {}
    says: dict[str, tuple[str, str]] = {}
    others: list[tuple[str, list[Candidate]]] = []
    for project, members in of_project.items():
        named = (standing.called(kind, each) for each in (name, *_qualified(name, project)))
        own = next((entry for entry in named if entry and slug_of(entry.source_cwd) == slug_of(project)), None)
        if own:
            found[own.name] = members
            newer = own.written_at > members[0].written_at
            says[own.name] = said_by(own.description, own.body) if newer else members[0].said
        else:
            others.append((project, members))
    for project, members in others:
        said = members[0].said
        alike = [called for called, text in says.items() if text == said]
        alike += [called for called in standing.saying(kind, name, said) if called not in says]
        names = [name, *_qualified(name, project)]
        free = (each for each in chain(names, map(f"{names[-1]} {{}}".format, count(2))) if each not in says)
        called = alike[0] if alike else next(each for each in free if not standing.called(kind, each))
        found.setdefault(called, []).extend(members)
        says.setdefault(called, said)
        if not alike and called != name:
            told.append(f"{HOME_OF[kind]}: {name!r} of {project} says something else than that of others and becomes {called!r}.")
    return found


def _qualified(name: str, project: str) -> tuple[str, str]:
    """Return a name with its project behind it, shortly and in full."""
    return f"{name} ({PurePath(project).name or project})", f"{name} ({project})"
