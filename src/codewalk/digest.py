"""Digests that change when meaning changes.

A Python file is digested by its syntax tree in a canonical form of our own:
positions, comments, docstrings and formatting are left out, and so is whatever
differs between Python versions (absent and empty fields, how an f-string is cut
into pieces). Of a notebook its code cells count, each as Python. Every other
file is digested by its bytes.
"""

import ast
import hashlib
import json
import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

_DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# Says nothing that the position in the tree does not say, or nothing at all.
_LEFT_OUT = frozenset({"ctx", "kind", "type_comment", "type_ignores"})


def digest_bytes(data: bytes) -> str:
    """The digest of a file that is not Python."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest_tree(tree: ast.AST) -> str:
    """The digest of a syntax tree: equal on every Python that parses the source."""
    hasher = hashlib.sha256()
    for token in _tokens(tree):
        hasher.update(token.encode("utf-8", "surrogatepass"))
        hasher.update(b"\0")
    return "ast:" + hasher.hexdigest()


def digest_source(name: str, data: bytes) -> str:
    """The digest of a file's content; `name` tells whether it is Python.

    Python that does not parse is digested by its bytes, so that a broken file
    still counts as changed and not as an error here.
    """
    if name.endswith(".ipynb"):
        return _digest_notebook(data)
    if not name.endswith(".py"):
        return digest_bytes(data)
    try:
        with warnings.catch_warnings():
            # An invalid escape would be an error where warnings are errors.
            warnings.simplefilter("ignore")
            tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return digest_bytes(data)
    return digest_tree(tree)


def _digest_notebook(data: bytes) -> str:
    """The digest of a notebook's code cells; of its bytes where it is none."""
    try:
        cells = json.loads(data)["cells"]
        texts = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return digest_bytes(data)
    # A cell that begins with a text shows it: that is no docstring.
    digests = (digest_source("a.py", f"pass\n{text}".encode()) for text in texts)
    return "cells:" + hashlib.sha256(" ".join(digests).encode()).hexdigest()


def digest_lines(name: str, text: str, start: int, end: int) -> str:
    """The digest of the statements that lie on these lines of a file's text.

    Both ends count, from 1. What stands around the statements, how deep they are
    indented and where in the file is left out. A file that is not Python is
    digested by the lines themselves. Raises SyntaxError or ValueError where a
    file should be Python and is not.
    """
    if not name.endswith(".py"):
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        return digest_bytes("\n".join(lines[start - 1 : end]).encode())
    statements = list(_statements(_parsed(text), start, end))
    # A module, so that a docstring is left out here as anywhere else.
    return digest_tree(ast.Module(body=statements, type_ignores=[]))


def digest_file(path: Path) -> str:
    """The digest of the file at `path`."""
    return digest_source(path.name, path.read_bytes())


@lru_cache(maxsize=64)
def _parsed(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def _statements(node: ast.AST, start: int, end: int) -> Iterator[ast.stmt]:
    """The outermost statements that lie wholly between these lines."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            decorators: list[ast.expr] = getattr(child, "decorator_list", [])
            first = min([child.lineno, *(one.lineno for one in decorators)])
            if start <= first and (child.end_lineno or first) <= end:
                yield child
                continue
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from _statements(child, start, end)


def _tokens(root: ast.AST) -> Iterator[str]:
    """The canonical form, as a flat stream (a deep tree must not recurse)."""
    stack: list[object] = [root]
    while stack:
        item = stack.pop()
        if isinstance(item, ast.AST):
            stack.extend(reversed(list(_node(item))))
        elif isinstance(item, str):
            yield item
        else:
            yield repr(item)


def _node(node: ast.AST) -> Iterator[object]:
    """A node as what it is made of: marks as strings, its children as nodes."""
    if isinstance(node, ast.Constant):
        yield f"constant {_constant(node.value)}"
        return
    yield f"({type(node).__name__}"
    for field, value in sorted(ast.iter_fields(node)):
        if field in _LEFT_OUT or value is None or value == []:
            continue
        yield f".{field}"
        if field == "body" and isinstance(node, _DEFINITIONS):
            yield from _without_docstring(value)
        elif isinstance(node, ast.JoinedStr):
            yield from _joined(value)
        elif isinstance(value, list):
            for child in value:
                yield child if child is not None else "absent"
        else:
            yield value
    yield ")"


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0]
    is_docstring = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )
    return body[1:] if is_docstring else body


def _joined(pieces: list[ast.expr]) -> Iterator[object]:
    """The pieces of an f-string, neighbouring texts joined and empty ones left out."""
    text = ""
    for piece in pieces:
        if isinstance(piece, ast.Constant):
            text += str(piece.value)
            continue
        if text:
            yield f"text {text!a}"
            text = ""
        yield piece
    if text:
        yield f"text {text!a}"


def _constant(value: object) -> str:
    """A constant with its type: 1, 1.0, True and "1" are four things."""
    # hex: repr refuses integers of more than 4,300 digits. ascii: what repr
    # escapes depends on the Unicode tables of the Python that runs.
    text = hex(value) if type(value) is int else ascii(value)
    return f"{type(value).__name__} {text}"
