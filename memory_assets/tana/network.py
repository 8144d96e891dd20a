"""The learning network: learnings, the people, projects and meetings of Tana that they are about, and the learnings that they name."""

import re
from typing import TYPE_CHECKING

from memory_assets.display import visible
from memory_assets.graph.picture import Picture
from memory_assets.language.secrets import mask
from memory_assets.tana.freshness import freshness

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant

_LABEL_LENGTH = 60


def learning_network(tenant: "Tenant") -> Picture:
    """What `memory_assets.graph.picture.draw` draws, as Tana was last read; a learning is the larger the fresher it is."""
    found = freshness(tenant)
    nodes = list({node.id: node for one in found for node in one.linked}.values())
    places = {one.entry.seed_id: number for number, one in enumerate(found)}
    places |= {node.id: len(found) + number for number, node in enumerate(nodes)}
    edges = [
        (places[one.entry.seed_id], places[node.id], "mentions", 1.0, "linked in Tana") for one in found for node in one.linked
    ]
    edges += [
        (places[one.entry.seed_id], places[word], "RELATES_TO", 1.0, "its text has the other's id")
        for one in found
        for word in sorted(set(re.findall(r"[\w-]+", one.entry.text)))
        if word in places and word != one.entry.seed_id
    ]
    texts = [" ".join(visible(mask(one.entry.text)).split()) for one in found]
    kinds = [one.entry.fields["Type"] for one in found]
    threshold = tenant.settings.freshness_days
    return Picture(
        ids=list(range(len(places))),
        kinds=["pattern learning" if kind == "pattern" else kind for kind in kinds] + ["entity"] * len(nodes),
        labels=[text[:_LABEL_LENGTH] for text in texts] + [visible(node.name) for node in nodes],
        texts=[f"{text} ({one.because})" for text, one in zip(texts, found, strict=True)]
        + [f"{visible(node.name)} ({node.kind})" for node in nodes],
        relevance=[max(0.05, 1 - one.days / threshold) for one in found] + [0.5] * len(nodes),
        edges=edges,
    )
