"""Extractive summaries of clusters: a label and sentences quoted from the members."""

import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

import numpy as np

from memory_assets.language.tags import normalise_tag
from memory_assets.language.words import prose_sentences

_SENTENCES = 3
_REDUNDANT = 0.5
"""Cosine of TF-IDF vectors from which two sentences count as repetitions."""
_MAX_SENTENCES = 400
"""Sentences compared, the first ones of each member first."""
_MAX_CHARACTERS = 220
_MIN_WORDS = 5
_LEAD_BONUS = 0.15
"""Added to the score of a memory's first sentence, which mostly says what the memory is about."""
_NAMES_IN_LABEL = 3
_TOPICS_IN_LABEL = 2
_MARKUP = re.compile(r"\*\*|__|`|^[\s>#-]+|\[\[|\]\]", re.MULTILINE)


def summarise(
    texts: Sequence[str],
    names: Sequence[Sequence[str]],
    dates: Sequence[datetime],
    topics: Sequence[Sequence[str]] = (),
) -> tuple[str, str]:
    """Return a cluster's label (its topics, else its entities, else its commonest terms) and a summary of its members.

    The summary quotes the sentences whose TF-IDF vectors are closest to the mean, by date, without repetitions. Each member has
    a text, the entities it mentions, a date, and its tags (`topics`) except names of people.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    candidates = _candidates([texts[place] for place in sorted(range(len(texts)), key=lambda place: dates[place])])
    label_names = _common_tags(topics, names) or _common_names(names)
    try:
        matrix = TfidfVectorizer(stop_words="english", sublinear_tf=True, max_features=20_000).fit([s for s, _ in candidates])
        vectors = matrix.transform([s for s, _ in candidates])
    except ValueError:  # every word is a stop word
        chosen = [candidate for candidate, _ in candidates[:1]]
        return _label(label_names) or (chosen[0][:60] if chosen else "cluster"), " ".join(chosen)
    mean = np.asarray(vectors.mean(axis=0)).ravel()
    scores = vectors @ mean / (np.linalg.norm(mean) or 1.0) + np.array([_LEAD_BONUS * leads for _, leads in candidates])
    picked: list[int] = []
    for place in np.argsort(-scores, kind="stable"):
        if all((vectors[place] @ vectors[other].T).toarray()[0, 0] < _REDUNDANT for other in picked):
            picked.append(int(place))
        if len(picked) == _SENTENCES:
            break
    if not label_names:
        terms = [str(term) for term in matrix.get_feature_names_out()]
        words = [terms[place] for place in np.argsort(-mean, kind="stable") if terms[place].isalpha()] or terms
        label_names = words[:_NAMES_IN_LABEL]
    quoted = " ".join(_as_sentence(candidates[place][0]) for place in sorted(picked))
    first, last = min(dates), max(dates)
    span = f"{first:%B %Y}" if (first.year, first.month) == (last.year, last.month) else f"{first:%B %Y} to {last:%B %Y}"
    about = ", ".join(label_names)
    return _label(label_names), f"{len(texts)} memories of {span} about {about}. {quoted}"


def _candidates(texts: Sequence[str]) -> list[tuple[str, bool]]:
    """Return the sentences worth quoting, and whether each opens its text."""
    share = max(2, _MAX_SENTENCES // max(1, len(texts)))
    found: list[tuple[str, bool]] = []
    for text in texts:
        plain = [" ".join(_MARKUP.sub("", sentence).split()) for sentence in prose_sentences(text)]
        worth = [sentence for sentence in plain if len(sentence.split()) >= _MIN_WORDS] or plain[:1]
        found += [(sentence, number == 0) for number, sentence in enumerate(worth[:share])]
    distinct: dict[str, bool] = {}
    for sentence, leads in found[:_MAX_SENTENCES]:
        distinct.setdefault(sentence, leads)
    return list(distinct.items())


def _label(names: Sequence[str]) -> str:
    label = ", ".join(names)
    return label[:1].upper() + label[1:]


def _common_tags(topics: Sequence[Sequence[str]], names: Sequence[Sequence[str]]) -> list[str]:
    """Return the tags that half of the members have, else those of a quarter (at least two members), in the spelling of their names.

    Of two tags that say the same the longer one is kept: `terraform-plan`, not `terraform`, unless most members are tagged Terraform alone.
    Several kinds of one thing are replaced by the thing: `explicit-rating` and `inferred-rating` become "rating".
    """
    counts = Counter(tag for listed in topics for tag in set(listed))
    common = {tag: count for tag, count in counts.items() if count >= max(2, len(topics) / 4)}
    kept = [
        tag
        for tag, count in common.items()
        if not any(other != tag and f"-{tag}-" in f"-{other}-" and 2 * common[other] >= count for other in common)
    ]
    heads = Counter(tag.rpartition("-")[2] for tag in kept if "-" in tag)
    things = {tag: head if heads[head := tag.rpartition("-")[2]] > 1 else tag for tag in kept}
    bearers = Counter(thing for listed in topics for thing in {things[tag] for tag in listed if tag in things})
    most = [thing for thing, count in bearers.items() if 2 * count >= len(topics)] or list(bearers)
    kept = sorted(most, key=lambda thing: (-bearers[thing], -thing.count("-"), thing))
    spelled = {normalise_tag(name): name for listed in names for name in listed}
    return [spelled.get(tag, tag.replace("-", " ")) for tag in kept[:_TOPICS_IN_LABEL]]


def _common_names(names: Sequence[Sequence[str]]) -> list[str]:
    """Return the names that a third of the members, and at least two of them, mention, the commonest first."""
    counts = Counter(name for listed in names for name in dict.fromkeys(listed))
    least = max(2, len(names) / 3)
    common = sorted((name for name, count in counts.items() if count >= least), key=lambda name: (-counts[name], name))
    return common[:_NAMES_IN_LABEL]


def _as_sentence(sentence: str) -> str:
    shown = sentence if len(sentence) <= _MAX_CHARACTERS else sentence[: _MAX_CHARACTERS - 1].rstrip() + "…"
    return shown if shown[-1] in ".!?…" else f"{shown}."
