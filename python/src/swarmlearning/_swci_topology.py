"""The tree of a swarm's nodes, from the lines of `list nodes`."""

from __future__ import annotations

import csv
import importlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from swarmlearning.errors import ParameterError, ProtocolError

COLUMNS = 7
MAX_NODES = 10_000
# The order in which nodes of one parent stand.
TYPES = ("SENTINEL", "SN", "FULLNODE", "SWOP", "SL")


class Node(NamedTuple):
    """One line of `list nodes`."""

    type: str
    host: str
    port: str
    name: str
    uid: str
    parent: str
    last: str

    def __str__(self) -> str:
        """Give what the tree shows of it."""
        where = f"{self.host}:{self.port}" if self.port else self.host
        return f"{self.type} {self.name or self.uid} ({where}){', ' + self.last if self.last else ''}"


def nodes(lines: Sequence[str]) -> list[Node]:
    """Read the lines of `list nodes`: a header, and seven columns for each node."""
    found = []
    for row in list(csv.reader(line.strip() for line in lines if line.strip()))[1:]:
        if len(row) != COLUMNS:
            raise ProtocolError(f"a line of list nodes has {len(row)} columns, not {COLUMNS}")
        found.append(Node(*(cell.strip() for cell in row)))
    if len(found) > MAX_NODES:
        raise ProtocolError(f"list nodes has more than {MAX_NODES} nodes")
    return found


def placed(all_nodes: Sequence[Node]) -> Iterator[tuple[int, Node]]:
    """Give each node once with its depth, parents before children. Whose parent is not there has none."""
    uids = {node.uid for node in all_nodes if node.uid}
    children: dict[str, list[Node]] = {}
    for node in sorted(all_nodes, key=_order):
        known = node.parent in uids and node.parent != node.uid
        children.setdefault(node.parent if known else "", []).append(node)
    seen: set[str] = set()
    # Those in a ring, which no root leads to, are roots of their own.
    stack = [(0, node) for node in [*children.get("", []), *sorted(all_nodes, key=_order)][::-1]]
    done: set[int] = set()
    while stack:
        depth, node = stack.pop()
        if id(node) in done:
            continue
        done.add(id(node))
        yield depth, node
        if node.uid and node.uid not in seen:
            seen.add(node.uid)
            stack += [(depth + 1, child) for child in children.get(node.uid, [])[::-1]]


def _order(node: Node) -> tuple[int, str, str]:
    return (TYPES.index(node.type) if node.type in TYPES else len(TYPES), node.name, node.uid)


def tree(all_nodes: Sequence[Node]) -> str:
    """Give the nodes as lines, each below its parent and indented by two blanks more."""
    return "\n".join("  " * depth + str(node) for depth, node in placed(all_nodes))


def draw(all_nodes: Sequence[Node], path: str) -> None:
    """Write the tree as a picture, of the kind that path ends in."""
    try:
        figure_class = importlib.import_module("matplotlib.figure").Figure
    except ImportError:
        raise ParameterError("matplotlib, which draws pictures, is not installed", "leave picture out") from None
    rows = list(placed(all_nodes))
    figure = figure_class(figsize=(8, 1 + 0.3 * min(len(rows), 500)))
    axes = figure.subplots()
    axes.axis("off")
    at: dict[int, int] = {}
    for row, (depth, node) in enumerate(rows):
        at[depth] = row
        if depth:
            axes.plot([depth - 1, depth - 1, depth], [-at[depth - 1], -row, -row], color="0.6", linewidth=1)
        axes.plot([depth], [-row], marker="o", color="C0" if depth else "C3")
        axes.text(depth + 0.1, -row, str(node), verticalalignment="center", fontsize=8)
    figure.savefig(path, bbox_inches="tight")
