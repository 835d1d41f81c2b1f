"""Nodes of a script's tree: which of them are the words of a command, and where its redirections go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Node

SIGNS = ("==", "=~", "$")  # words of a command that the grammar has no name for


def words_of(node: Node) -> list[Node]:
    """Return the words of a command or of an array; of ``> file word``, the words behind the file, too."""
    words: list[Node] = []
    for child in node.children:
        if child.type.endswith("_redirect"):
            words += behind(child)
        elif (child.is_named or child.type in SIGNS) and child.type not in ("comment", "variable_assignment"):
            words.append(child)
    return words


def behind(redirect: Node) -> list[Node]:
    """Return the words that stand behind a redirection: the grammar counts them to it, a shell to the command."""
    if redirect.type == "heredoc_redirect":
        return [child for child in redirect.children if child.type in ("word", "number", "string", "raw_string",
                "concatenation", "simple_expansion", "expansion", "command_substitution")]  # fmt: skip
    named = [child for child in redirect.children if child.is_named and child.type != "file_descriptor"]
    return named[1:] if redirect.type == "file_redirect" else []


def files_of(redirects: Sequence[Node]) -> Iterator[Node]:
    """Yield the redirections into files, also of those that stand behind the mark of a here-document."""
    for redirect in redirects:
        if redirect.type == "file_redirect" and any(
            child.type in (">", ">>", "&>", ">|") for child in redirect.children
        ):
            yield redirect
        elif redirect.type == "heredoc_redirect":
            yield from files_of([child for child in redirect.children if child.type == "file_redirect"])


def leaves(node: Node) -> Iterator[Node]:
    """Yield the commands within a node."""
    if node.type == "command":
        yield node
    else:
        for child in node.children:
            yield from leaves(child)


class Spot(NamedTuple):
    """The smallest node over a byte of a script, the one that it is part of, and whether nothing comes behind it."""

    node: Node
    parent: Node | None
    is_last: bool


def spots_at(root: Node, places: Sequence[int]) -> list[Spot | None]:
    """Return the smallest node over each of these bytes, which ascend; None behind the end of the script.

    In one walk: to look up each of them takes as long as the tree is deep and wide.
    """
    spots: list[Spot | None] = []
    path: list[tuple[Spot, Iterator[tuple[int, Node]], int]] = []

    def enter(node: Node, parent: Node | None, is_last: bool) -> None:
        children = node.children
        path.append((Spot(node, parent, is_last), iter(enumerate(children)), len(children)))

    enter(root, None, True)
    while path and len(spots) < len(places):
        spot, children, count = path[-1]
        number, child = next(children, (count, None))
        end = spot.node.end_byte if child is None else child.start_byte
        while len(spots) < len(places) and places[len(spots)] < end:
            spots.append(spot)
        if child is None:
            path.pop()
        elif len(spots) < len(places) and places[len(spots)] < child.end_byte:
            enter(child, spot.node, number + 1 == count)
    return [*spots, *[None] * (len(places) - len(spots))]
