"""Writes the tables and pictures of docs/reference/merging.md from results.

Pictures are SVG, which a reader's light or dark theme colours.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import trials

MODES = ("snapshot", "active", "inactive", "once")
CASES = {"iid": "IID, unequal shares", "skew": "label-skewed", "cnn": "early-stopping CNN"}
COLOURS = {"snapshot": "#d1662b", "active": "#9a6ddb", "inactive": "#3b8eea", "once": "#2da44e"}
PAGE = trials.ROOT / "docs" / "reference" / "merging.md"

STYLE = """<style>
text { font: 12px sans-serif; fill: #424a53 } .head { font-weight: bold } .small { font-size: 10px }
.axis { stroke: #8c959f; stroke-width: 1; fill: none } .grid { stroke: #8c959f; stroke-opacity: .25 }
.end { stroke: #8c959f; stroke-dasharray: 3 3 } .line { fill: none; stroke-width: 2; stroke-linejoin: round }
@media (prefers-color-scheme: dark) { text { fill: #c9d1d9 } }
</style>"""

Result = dict[str, Any]


def spread(values: Sequence[float]) -> str:
    """Give mean and standard deviation."""
    return f"{statistics.mean(values):.3f} ± {statistics.stdev(values):.3f}" if len(values) > 1 else f"{values[0]:.3f}"


def insert(name: str, table: str) -> None:
    """Put a table into the page, between the lines that mark its place."""
    text = PAGE.read_text()
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    head, rest = text.split(begin)
    PAGE.write_text(head + begin + "\n" + table + "\n" + end + rest.split(end)[1])


def rows(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Give a table."""
    return "".join(f"| {' | '.join(line)} |\n" for line in [head, ["---"] * len(head), *lines])


def draw(results: Sequence[Result]) -> None:
    """Write what checkin.py measured."""
    lines = []
    for case, title in CASES.items():
        means = {mode: spread(accuracies(results, case, mode)) for mode in MODES}
        best = max(MODES, key=lambda mode: statistics.mean(accuracies(results, case, mode)))
        lines.append([title, *(f"**{means[mode]}**" if mode == best else means[mode] for mode in MODES)])
    insert("checkin.py", rows(["", *(f"`{mode}`" for mode in MODES)], lines))
    (PAGE.parent / "checkin-accuracy.svg").write_text(dots(results))
    (PAGE.parent / "checkin-merges.svg").write_text(curves([one for one in results if one.get("curve")]))


def accuracies(results: Sequence[Result], case: str, mode: str) -> list[float]:
    """Give the accuracies of a case under a mode, of all seeds."""
    return [one["accuracy"] for one in results if one["case"] == case and one["mode"] == mode]


def write_tables(
    results: Sequence[Result],
    rates: Sequence[str],
    intervals: Sequence[str],
    norms: Sequence[str],
    weights: Sequence[str],
) -> None:
    """Write what merging.py measured."""

    def of(table: str, row: str) -> str:
        return spread(
            [statistics.mean(one["accuracy"]) for one in results if (one["table"], one["row"]) == (table, row)]
        )

    by_rate = [[f"{lr}", *(of("rate", f"{lr} {k}") for k in intervals)] for lr in rates]
    insert("rate", rows(["learning rate", *(f"`syncFrequency` {k}" for k in intervals)], by_rate))
    insert("norm", rows(["normalisation", "accuracy"], [[name, of("norm", name)] for name in norms]))
    insert("weights", rows(["`nodeWeightage`", "accuracy"], [[name, of("weights", name)] for name in weights]))


def svg(width: int, height: int, title: str, body: Sequence[str]) -> str:
    """Give a picture."""
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            f"<title>{title}</title>",
            STYLE,
            *body,
            "</svg>",
            "",
        ]
    )


def dots(results: Sequence[Result]) -> str:
    """Draw the final accuracy of each seed, by case and mode."""
    left, wide, row, top = 80, 200, 22, 40
    body, height = [], top + row * len(MODES) + 30
    for i, (case, title) in enumerate(CASES.items()):
        x0 = left + i * (wide + 30)
        body.append(f'<text class="head" x="{x0}" y="18">{title}</text>')
        for tick in (0, 0.5, 1):
            x = x0 + tick * wide
            body.append(f'<path class="grid" d="M{x:.0f} {top - 8}V{height - 26}"/>')
            body.append(f'<text class="small" x="{x:.0f}" y="{height - 10}" text-anchor="middle">{tick}</text>')
        for j, mode in enumerate(MODES):
            y, values = top + row * j + 6, accuracies(results, case, mode)
            if i == 0:
                body.append(f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{mode}</text>')
            mean = x0 + statistics.mean(values) * wide
            body.append(
                f'<path d="M{x0} {y}H{mean:.1f}" stroke="{COLOURS[mode]}" stroke-width="10" stroke-opacity=".35"/>'
            )
            body += [f'<circle cx="{x0 + v * wide:.1f}" cy="{y}" r="3" fill="{COLOURS[mode]}"/>' for v in values]
    return svg(
        left + len(CASES) * (wide + 30), height, "Accuracy of the final model by check-in mode, five seeds each", body
    )


def curves(results: Sequence[Result]) -> str:
    """Draw the accuracy of the merged model after each merge, by case and mode, and where peers ended."""
    left, wide, high, top = 40, 215, 150, 30
    body, height = [], top + high + 55
    for i, (case, title) in enumerate(CASES.items()):
        mine = [one for one in results if one["case"] == case]
        x0, last = left + i * (wide + 25), max(len(one["curve"]) for one in mine) + 1
        body.append(f'<text class="head" x="{x0}" y="18">{title}</text>')
        for tick in (0, 0.5, 1):
            y = top + (1 - tick) * high
            body.append(f'<path class="grid" d="M{x0} {y:.0f}h{wide}"/>')
            if i == 0:
                body.append(f'<text class="small" x="{left - 6}" y="{y + 4:.0f}" text-anchor="end">{tick}</text>')
        for peer in range(trials.PEERS):
            ends = {one["merges"][peer] + 1 for one in mine}
            if len(ends) == 1 and min(ends) < last:  # under all modes, and before the others
                body.append(f'<path class="end" d="M{x0 + min(ends) / last * wide:.1f} {top}v{high}"/>')
        for one in mine:
            at = [f"{x0 + r / last * wide:.1f} {top + (1 - v) * high:.1f}" for r, v in one["curve"]]
            body.append(f'<path class="line" stroke="{COLOURS[one["mode"]]}" d="M{"L".join(at)}"/>')
        body.append(f'<text class="small" x="{x0}" y="{top + high + 14}">merge 1</text>')
        body.append(f'<text class="small" x="{x0 + wide}" y="{top + high + 14}" text-anchor="end">{last}</text>')
    legend, y = [(mode, f'class="line" stroke="{COLOURS[mode]}"') for mode in MODES], height - 10
    for j, (text, look) in enumerate([*legend, ("a peer ends", 'class="end"')]):
        x = left + j * 110
        body.append(f'<path {look} d="M{x} {y - 4}h20"/><text x="{x + 26}" y="{y}">{text}</text>')
    title = "Accuracy of the merged model after each merge; dashed lines: where a peer ended"
    return svg(left + len(CASES) * (wide + 25), height, title, body)
