"""The page of a comparison: a chart of bars for each metric, and the table as it is."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from penstock.tools.reports.compare.table import Comparison, Metric, ratio_text
from penstock.tools.reports.page.assemble import Page, beside

(STYLE,) = beside(__file__, "compare.css")

ROW, GAP, LABEL, BARS, VALUES = 16, 10, 190, 560, 210
"""Units of a chart: the height of a bar, between subjects, and widths of columns."""

COLOURS = 8
"""The colours of variants, after which they come again."""


def page_of(comparison: Comparison) -> str:
    """The page of a comparison, one text that loads nothing."""
    names = ", ".join(comparison.variants)
    views = ['<section class="comparison">']
    for metric in comparison.metrics:
        about = escape(metric.explanation)
        views += [f"<h2>{escape(metric.name)}</h2>", f"<p>{about}</p>"]
        views += [*_chart(comparison, metric), *_table(comparison, metric)]
    views += [f"<p>{escape(x)}</p>" for x in (*comparison.notes, *comparison.errors)]
    views.append("</section>")
    return Page(
        title=f"Comparison of {names}",
        heading=f"Comparison of {escape(names)}",
        header=["<p>Less is better.</p>", *_legend(comparison)],
        views=views,
        data={},
        styles=[STYLE],
        scripts=[],
    ).text()


def _legend(comparison: Comparison) -> Iterator[str]:
    yield '<ul class="variants">'
    for number, name in enumerate(comparison.variants):
        yield f'<li class="variant-{number % COLOURS}">{escape(name)}</li>'
    yield "</ul>"


def _chart(comparison: Comparison, metric: Metric) -> Iterator[str]:
    """A bar for each subject and variant; each subject has a scale of its own."""
    height = len(comparison.variants) * ROW + GAP
    tall = len(comparison.cells) * height + GAP
    wide = LABEL + BARS + VALUES
    yield f'<svg viewBox="0 0 {wide} {tall}" role="img" aria-label="{metric.name}">'
    for position, (subject, rows) in enumerate(comparison.cells.items()):
        top = GAP + position * height
        values = [cell.value for cell in rows[metric.name]]
        largest = max((value for value in values if value is not None), default=0) or 1
        middle = top + (height - GAP) / 2
        yield f'<text class="subject" x="0" y="{middle:g}">{escape(subject)}</text>'
        for number, value in enumerate(values):
            y = top + number * ROW
            text = "" if value is None else metric.text_of(value)
            if number and value is not None and values[0]:
                text += f" ({ratio_text(value / values[0])})"
            width = BARS * (value or 0) / largest
            yield (
                f'<rect class="variant-{number % COLOURS}" x="{LABEL}" y="{y}" '
                f'width="{width:.1f}" height="{ROW - 2}"/>'
            )
            place = f'x="{LABEL + width + 6:.1f}" y="{y + ROW - 5}"'
            yield f"<text {place}>{escape(text)}</text>"
    yield "</svg>"


def _table(comparison: Comparison, metric: Metric) -> Iterator[str]:
    header, *rows = comparison.rows(metric)
    yield '<table class="sortable"><thead><tr>'
    yield "".join(f"<th>{escape(cell)}</th>" for cell in header)
    yield "</tr></thead><tbody>"
    for row in rows:
        yield f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
    yield "</tbody></table>"
