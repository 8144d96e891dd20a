"""The graph as a picture: one HTML file that holds all it needs and works offline.

plotly draws it (its package carries its script): a trace for each kind of node and each type of edge, so that a click in the
legend filters; the size of a memory is its relevance. A search box and a least-confidence box stand above it. Whatever memories
say is escaped twice: as HTML for the labels, and by plotly's JSON, which leaves no `<` in a script.
"""

import html
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from memory_assets.errors import SettingsError
from memory_assets.stores.catalog import Catalog

if TYPE_CHECKING:
    import numpy.typing as npt

    Positions = npt.NDArray[np.float64]

_COLOURS = {
    "entity": "#8a8f98",
    "pattern": "#d4a72c",
    "user": "#c2559d",
    "feedback": "#d1495b",
    "project": "#2e86ab",
    "reference": "#6a7fdb",
    "pattern learning": "#2a9d8f",
    "insight": "#57a773",
    "self_knowledge": "#a05195",
    "rating": "#b08968",
    "reflection": "#7f5539",
    "note": "#3d5a80",
    "proposal": "#9c6644",
}
_OTHER_COLOUR = "#5c677d"
_EDGE_COLOURS = {
    "RELATES_TO": "#b8bfca",
    "LEADS_TO": "#d1495b",
    "OCCURRED_BEFORE": "#9aa5b1",
    "PREFERS_OVER": "#c2559d",
    "EXEMPLIFIES": "#2a9d8f",
    "CONTRADICTS": "#e4572e",
    "REINFORCES": "#57a773",
    "INVALIDATED_BY": "#f3722c",
    "EVOLVED_INTO": "#2e86ab",
    "DERIVED_FROM": "#6a7fdb",
    "PART_OF": "#d4a72c",
    "SHARES_THEME": "#7b6fd0",
    "mentions": "#dde1e7",
}
_ARROWS_UP_TO = 1_500
"""Edges up to which each has an arrow head; more heads than that only hide the graph."""
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
    """The most relevant memories, at most `most` nodes with the entities and clusters they share, and all edges between them.

    Raises:
        StoreError: the catalog cannot be read.
    """
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
    """The HTML file's text.

    Raises:
        SettingsError: plotly is not installed.
    """
    try:
        import plotly.graph_objects as go
        import plotly.io
    except ImportError as error:
        raise SettingsError("`memory graph` draws with plotly: run `pip install plotly`.") from error

    where = layout(len(picture.ids), [(a, b, confidence) for a, b, _, confidence, _ in picture.edges])
    figure = go.Figure()
    with_arrows = len(picture.edges) <= _ARROWS_UP_TO
    for kind in sorted({edge[2] for edge in picture.edges}, key=lambda kind: (kind != "mentions", kind)):
        figure.add_trace(_edge_trace(go, picture, where, kind, with_arrows=with_arrows))
    for kind in sorted(set(picture.kinds), key=lambda kind: (kind != "entity", kind)):
        figure.add_trace(_node_trace(go, picture, where, kind))
    figure.add_trace(_name_trace(go, picture, where))
    hidden = {"visible": False, "showgrid": False, "zeroline": False}
    figure.update_layout(
        template="none",
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
    return _PAGE.replace("$title", html.escape(title)).replace("$counts", _counts(picture)).replace("$body", body)


def _counts(picture: Picture) -> str:
    return html.escape(f"{len(picture.ids)} nodes, {len(picture.edges)} edges")


def _edge_trace(go: Any, picture: Picture, where: "Positions", kind: str, *, with_arrows: bool) -> Any:
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
    marker: dict[str, Any] = {"size": [0, 6, 0, 0] * len(chosen), "color": _EDGE_COLOURS[kind], "opacity": 0}
    if with_arrows and not is_mention:
        arrows = {"symbol": "arrow", "angleref": "previous", "opacity": 1, "size": [0, 7, 0, 0] * len(chosen)}
        marker |= arrows
    return go.Scatter(
        x=xs,
        y=ys,
        mode="lines" if is_mention else "lines+markers",
        name=kind,
        legendgroup="edges",
        legendgrouptitle={"text": "edges"},
        line={"width": 0.6 if is_mention or kind == "RELATES_TO" else 1.4, "color": _EDGE_COLOURS[kind]},
        opacity=0.7,
        marker=marker,
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
            "color": _COLOURS.get(kind, _OTHER_COLOUR),
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


def layout(count: int, edges: list[tuple[int, int, float]], seed: int = 0) -> "Positions":
    """Places for `count` nodes: edges pull, and every node is pushed away from some others drawn anew in each round.

    Repulsion by sampling (as in LargeVis and UMAP) costs the same for every node, so thousands of nodes take a second.

    Args:
        count: nodes.
        edges: both ends and a confidence, which is the strength of the pull.
        seed: of the starting places and the samples.

    Returns:
        Shape (count, 2).
    """
    random = np.random.default_rng(seed)
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


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>$title</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
html, body { height: 100%; margin: 0; font: 14px/1.4 system-ui, sans-serif; color: #22303c; background: #fff; }
body { display: flex; flex-direction: column; }
header { display: flex; flex-wrap: wrap; gap: 12px; align-items: center; padding: 8px 12px; border-bottom: 1px solid #dde1e7; }
header h1 { font-size: 15px; margin: 0; }
header input { font: inherit; padding: 3px 6px; border: 1px solid #b8bfca; border-radius: 4px; }
#find { width: 16em; } #least { width: 4.5em; } #found, #counts { color: #5c677d; }
main { flex: 1; min-height: 0; }
main > div { height: 100%; }
</style></head><body>
<header><h1>$title</h1><span id="counts">$counts</span>
<label>Search <input id="find" type="search" placeholder="words or id" autocomplete="off"></label><span id="found"></span>
<label>Edges from confidence <input id="least" type="number" min="0" max="1" step="0.05" value="0"></label>
<span>Click a legend entry to hide it, twice to see it alone.</span></header>
<main>$body</main>
<script>
(function () {
  var graph = document.getElementById("graph");
  var traces = graph.data.map(function (trace, number) {
    return { number: number, kind: trace.meta.kind, data: trace.customdata, x: Array.from(trace.x) };
  });
  function find() {
    var words = document.getElementById("find").value.toLowerCase().split(/\\s+/).filter(Boolean), found = 0;
    traces.forEach(function (trace) {
      if (trace.kind !== "node") return;
      var opacity = trace.data.map(function (text) {
        var fits = words.every(function (word) { return text.indexOf(word) >= 0; });
        if (fits) found += 1;
        return fits ? 1 : 0.08;
      });
      Plotly.restyle(graph, { "marker.opacity": [words.length ? opacity : 1] }, [trace.number]);
    });
    Plotly.restyle(graph, { opacity: words.length ? 0.15 : 0.7 }, traces.filter(function (t) { return t.kind === "edge"; })
      .map(function (t) { return t.number; }));
    document.getElementById("found").textContent = words.length ? found + " found" : "";
  }
  function filter() {
    var least = parseFloat(document.getElementById("least").value) || 0;
    traces.forEach(function (trace) {
      if (trace.kind !== "edge") return;
      var x = trace.x.map(function (value, place) {
        return trace.data[place] === null || trace.data[place] >= least ? value : null;
      });
      Plotly.restyle(graph, { x: [x] }, [trace.number]);
    });
  }
  document.getElementById("find").addEventListener("input", find);
  document.getElementById("least").addEventListener("change", filter);
  var wanted = new URLSearchParams(location.hash.slice(1)).get("find");
  if (wanted) { document.getElementById("find").value = wanted; find(); }
})();
</script></body></html>
"""
