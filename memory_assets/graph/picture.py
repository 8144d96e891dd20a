"""The graph as a picture: one HTML file (`picture.html`, drawn by plotly) that holds all it needs and works offline.

The texts of memories are escaped twice: as HTML for the labels, and by plotly's JSON, which leaves no `<` in a script.
"""

import html
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from memory_assets.errors import SettingsError
from memory_assets.stores.catalog import Catalog

if TYPE_CHECKING:
    import numpy.typing as npt

    Positions = npt.NDArray[np.float64]

_PALE = "#dde1e7"
_LABEL_LENGTH = 60
_NAMED = 25
"""Nodes whose names are written: those that most edges meet."""
_NAME_LENGTH = 28
_PULL = 0.4
_GRAVITY = 0.03
_TEXT_LENGTH = 300


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn."""

    ids: list[int]
    kinds: list[str]
    """`entity`, `pattern`, or the memory's kind."""
    labels: list[str]
    texts: list[str]
    """What is shown when the pointer rests on it."""
    relevance: list[float]
    edges: list[tuple[int, int, str, float, str]]
    """Places of both ends, type, confidence, reason."""


def read_picture(catalog: Catalog, most: int) -> Picture:
    """The most relevant memories, at most `most` nodes with the entities and clusters they share, and all edges between them."""
    with catalog.read() as connection:
        connection.execute(
            """
            CREATE TEMP TABLE shown_memories AS
                SELECT n.id, n.type AS kind, n.label, coalesce(r.relevance, 0) AS relevance, m.created_at
                FROM graph_nodes n JOIN graph_memories m USING (id) LEFT JOIN relevance_scores r USING (id)
                WHERE n.kind = 'memory' AND m.state IN ('active', 'superseded')
                ORDER BY m.state, coalesce(r.relevance, 0) DESC, n.id LIMIT $1
            """,
            [most],
        )
        connection.execute(
            """
            CREATE TEMP TABLE shown AS
            FROM shown_memories UNION ALL BY NAME
            FROM (
                SELECT n.id, CASE n.kind WHEN 'pattern' THEN 'pattern' ELSE 'entity' END AS kind, n.label,
                       least(1, count(*) / 20) AS relevance, NULL AS created_at
                FROM graph_nodes n
                JOIN (SELECT entity_id AS id, memory_id FROM graph_mentions
                      UNION ALL
                      SELECT target_id, source_id FROM graph_edges WHERE type = 'PART_OF' AND origin = 'cluster') l USING (id)
                SEMI JOIN shown_memories s ON s.id = l.memory_id
                WHERE n.kind <> 'memory' GROUP BY ALL HAVING count(*) > 1 OR n.kind = 'pattern'
                ORDER BY count(*) DESC, n.id LIMIT greatest(0, $1 - (SELECT count(*) FROM shown_memories))
            )
            """,
            [most],
        )
        nodes = connection.execute(
            """
            SELECT s.id, s.kind, s.label, s.relevance, s.created_at, n.type, c.summary
            FROM shown s JOIN graph_nodes n USING (id) LEFT JOIN clusters c USING (id) ORDER BY s.id
            """
        ).fetchall()
        edges = connection.execute(
            """
            SELECT source_id, target_id, type, max(confidence), arg_max(coalesce(note, ''), confidence)
            FROM (SELECT source_id, target_id, type, confidence, note FROM graph_edges
                  UNION ALL SELECT memory_id, entity_id, 'mentions', 1.0, 'mentions' FROM graph_mentions) e
            SEMI JOIN shown a ON a.id = e.source_id SEMI JOIN shown b ON b.id = e.target_id
            GROUP BY source_id, target_id, type ORDER BY ALL
            """
        ).fetchall()
    place = {row[0]: number for number, row in enumerate(nodes)}
    return Picture(
        [row[0] for row in nodes],
        [("pattern learning" if row[1] == "pattern" and row[5] != "MetaPattern" else row[1]) for row in nodes],
        [row[2] for row in nodes],
        [_text(*row[1:]) for row in nodes],
        [float(row[3]) for row in nodes],
        [(place[source], place[target], kind, confidence, note) for source, target, kind, confidence, note in edges],
    )


def _text(kind: str, label: str, relevance: float, created_at: Any, node_type: str, summary: str | None) -> str:
    if kind == "entity":
        return f"{label} ({node_type})"
    if node_type == "MetaPattern":
        return summary or label
    date = f", {created_at:%Y-%m-%d}" if created_at else ""
    return f"{label} ({kind}{date}, relevance {relevance:.2f})"


def draw(picture: Picture, title: str) -> str:
    """The HTML file's text."""
    try:
        import plotly.colors
        import plotly.graph_objects as go
        import plotly.io
    except ModuleNotFoundError as error:
        raise SettingsError("`memory graph` draws with plotly, which is not installed; run `pip install plotly`.") from error

    where = layout(len(picture.ids), [(a, b, confidence) for a, b, _, confidence, _ in picture.edges])
    figure = go.Figure()
    for kind in sorted({edge[2] for edge in picture.edges}, key=lambda kind: (kind != "mentions", kind)):
        figure.add_trace(_edge_trace(go, picture, where, kind))
    for kind in sorted(set(picture.kinds), key=lambda kind: (kind != "entity", kind)):
        figure.add_trace(_node_trace(go, picture, where, kind))
    figure.add_trace(_name_trace(go, picture, where))
    hidden = {"visible": False, "showgrid": False, "zeroline": False}
    figure.update_layout(
        template="none",
        colorway=plotly.colors.qualitative.Dark24,
        hovermode="closest",
        dragmode="pan",
        margin={"l": 0, "r": 0, "t": 0, "b": 0},
        xaxis=hidden,
        yaxis=hidden | {"scaleanchor": "x"},
        legend={"y": 0.94, "itemsizing": "constant", "bgcolor": "rgba(255,255,255,0.85)"},
    )
    body = plotly.io.to_html(
        figure,
        include_plotlyjs=True,
        full_html=False,
        div_id="graph",
        config={"scrollZoom": True, "displaylogo": False, "responsive": True},
        default_height="100%",
    )
    counts = f"{len(picture.ids)} nodes, {len(picture.edges)} edges"
    page = Path(__file__).with_suffix(".html").read_text(encoding="utf-8")
    return page.replace("$title", html.escape(title)).replace("$counts", counts).replace("$body", body)


def _edge_trace(go: Any, picture: Picture, where: "Positions", kind: str) -> Any:
    chosen = [edge for edge in picture.edges if edge[2] == kind]
    xs: list[float | None] = []
    ys: list[float | None] = []
    texts: list[str | None] = []
    strengths: list[float | None] = []
    for source, target, _, confidence, note in chosen:
        (x0, y0), (x1, y1) = where[source], where[target]
        xs += [round(x0, 2), round((x0 + x1) / 2, 2), round(x1, 2), None]
        ys += [round(y0, 2), round((y0 + y1) / 2, 2), round(y1, 2), None]
        said = f"{_short(picture.labels[source])} <b>{kind}</b> {_short(picture.labels[target])} ({confidence:.2f})"
        texts += [None, f"{said}<br>{_wrapped(note)}", None, None]
        strengths += [round(confidence, 2)] * 3 + [None]
    is_mention = kind == "mentions"
    return go.Scatter(
        x=xs,
        y=ys,
        mode="lines" if is_mention else "lines+markers",
        name=kind,
        legendgroup="edges",
        legendgrouptitle={"text": "edges"},
        line={"width": 0.6, "color": _PALE} if is_mention else {"width": 1.4},
        opacity=0.7,
        marker={"size": 6, "opacity": 0},
        hovertext=None if is_mention else texts,
        hoverinfo="skip" if is_mention else "text",
        customdata=strengths,
        meta={"kind": "edge", "type": kind},
    )


def _node_trace(go: Any, picture: Picture, where: "Positions", kind: str) -> Any:
    places = [place for place, other in enumerate(picture.kinds) if other == kind]
    is_thing = kind in {"entity", "pattern"}
    return go.Scatter(
        x=[round(where[place][0], 2) for place in places],
        y=[round(where[place][1], 2) for place in places],
        mode="markers",
        name=kind,
        legendgroup="nodes",
        legendgrouptitle={"text": "nodes"},
        marker={
            "size": [round(5 + 16 * picture.relevance[place], 1) for place in places],
            "symbol": "diamond" if kind == "pattern" else "circle",
            "line": {"width": 0 if is_thing else 0.5, "color": "#ffffff"},
        },
        hovertext=[_wrapped(picture.texts[place]) for place in places],
        hoverinfo="text",
        customdata=[f"{picture.labels[place]} {picture.ids[place]}".lower() for place in places],
        meta={"kind": "node", "type": kind},
    )


def _name_trace(go: Any, picture: Picture, where: "Positions") -> Any:
    degrees = np.bincount([end for edge in picture.edges for end in edge[:2]], minlength=len(picture.ids))
    places = np.argsort(-degrees, kind="stable")[:_NAMED].tolist()
    return go.Scatter(
        x=[round(where[place][0], 2) for place in places],
        y=[round(where[place][1], 2) for place in places],
        mode="text",
        name="names",
        text=[_short(picture.labels[place], _NAME_LENGTH) for place in places],
        textposition="top center",
        textfont={"size": 11, "color": "#22303c"},
        hoverinfo="skip",
        customdata=[None] * len(places),
        meta={"kind": "name", "type": "names"},
    )


def _short(text: str, length: int = _LABEL_LENGTH) -> str:
    words = " ".join(text.split())
    return html.escape(words if len(words) <= length else words[: length - 1] + "…")


def _wrapped(text: str) -> str:
    words = " ".join(text.split())[:_TEXT_LENGTH]
    return "<br>".join(html.escape(line) for line in textwrap.wrap(words, 80)) or " "


def layout(count: int, edges: list[tuple[int, int, float]]) -> "Positions":
    """Places, shape (count, 2): edges pull by their confidence, and every node is pushed away from some others drawn in each round.

    Repulsion by sampling (as in LargeVis and UMAP) costs the same for every node, so thousands of nodes take a second.
    """
    random = np.random.default_rng(0)
    where = random.normal(scale=max(1.0, count**0.5), size=(count, 2))
    if count < 2:
        return where
    ends = np.array([(a, b) for a, b, _ in edges], np.int64).reshape(-1, 2)
    strength = np.array([max(0.05, confidence) for _, _, confidence in edges])
    degree = np.bincount(ends.ravel(), minlength=count).clip(1)
    samples, rounds = min(10, count - 1), 300
    for step in range(rounds):
        heat = 1 - step / rounds
        force = np.zeros_like(where)
        if len(ends):
            gap = where[ends[:, 1]] - where[ends[:, 0]]
            pull = _PULL * gap * (strength / np.sqrt(degree[ends[:, 0]] * degree[ends[:, 1]]).clip(1))[:, None]
            np.add.at(force, ends[:, 0], pull)
            np.add.at(force, ends[:, 1], -pull)
        others = random.integers(0, count, size=(count, samples))
        away = where[:, None, :] - where[others]
        distance = (away**2).sum(axis=2, keepdims=True) + 0.1
        force += (away / distance).sum(axis=1) * (count / samples) ** 0.5 * 2
        force -= _GRAVITY * where
        length = np.linalg.norm(force, axis=1, keepdims=True).clip(1e-9)
        where += force / length * np.minimum(length, 3 * heat + 0.05)
    return where
