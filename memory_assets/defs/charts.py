"""Small bar charts for the pages of assets, as SVG within Markdown."""

from base64 import b64encode
from collections.abc import Mapping
from html import escape

import dagster as dg

_WIDTH, _ROW, _LABEL = 420, 18, 120


def bar_chart(title: str, counts: Mapping[str, int]) -> dg.MarkdownMetadataValue:
    """Return a chart with one horizontal bar and count per label, or a sentence if there is nothing to draw."""
    if not any(counts.values()):
        return dg.MarkdownMetadataValue(f"{title}: nothing yet.")
    scale = (_WIDTH - _LABEL - 60) / max(counts.values())
    bars = [
        f'<text x="{_LABEL - 6}" y="{top + 13}" text-anchor="end">{escape(label)}</text>'
        f'<rect x="{_LABEL}" y="{top + 3}" width="{max(1, round(count * scale))}" height="12" fill="#4f46e5"/>'
        f'<text x="{_LABEL + max(1, round(count * scale)) + 5}" y="{top + 13}">{count}</text>'
        for top, (label, count) in ((number * _ROW, each) for number, each in enumerate(counts.items()))
    ]
    drawing = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{len(counts) * _ROW + 2}" font-family="sans-serif" '
        f'font-size="11" fill="#555">{"".join(bars)}</svg>'
    )
    return dg.MarkdownMetadataValue(f"![{title}](data:image/svg+xml;base64,{b64encode(drawing.encode()).decode()})")
