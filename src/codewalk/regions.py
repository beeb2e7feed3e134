"""The regions of a Python file that have names: its symbols and its steps.

Symbols are functions, classes and methods, decorators included. A step begins at
a comment `# [name] Sentence.` that stands alone on its line inside a function,
where a statement begins, and ends before the next step of the same block, or
with the block.
"""

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from codewalk.errors import CodewalkError

_STEP = re.compile(r"#\s*\[([a-z][a-z0-9]*(?:-[a-z0-9]+)*)\]\s+(\S.*)")
_NOT_A_START = frozenset({"else", "elif", "except", "finally"})
_SYMBOLS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SILENT = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
)


@dataclass(frozen=True)
class Region:
    """Lines with a name. `start` and `end` count from 1 and are both included."""

    kind: str  # "symbol" or "step"
    name: str  # as in the source
    qualname: str  # with the symbols (and, for a step, the function) around it
    start: int
    end: int
    function: str = ""  # a step's function, qualified
    text: str = ""  # a step's comment, without its mark


@dataclass
class Node:
    """A region and the regions inside it."""

    region: Region
    inner: list["Node"] = field(default_factory=list)


@dataclass(frozen=True)
class _Start:
    """Where a statement begins: its block, its place there, its function."""

    block: list[ast.stmt]
    index: int
    function: str
    column: int


class Regions:
    """Reads the symbols and the steps of one Python file."""

    def __init__(self, path: str, text: str):
        self.path = path
        reader = io.StringIO(text, newline=None).readline
        try:
            with warnings.catch_warnings():
                # An invalid escape is the linter's to report, not the site's.
                warnings.simplefilter("ignore")
                self.tree = ast.parse(text)
            # Without a mark there is no step, and reading the tokens takes longest.
            marked = _STEP.search(text)
            self.tokens = list(tokenize.generate_tokens(reader)) if marked else []
        except (SyntaxError, ValueError, tokenize.TokenError) as error:
            line = getattr(error, "lineno", None) or 0
            raise CodewalkError(
                f"{path}:{line}: not Python that parses: {error}"
            ) from None
        except (RecursionError, MemoryError):
            raise CodewalkError(f"{path}: nested too deeply to be read") from None
        self.symbols: list[Region] = []
        self.starts: dict[tuple[int, int], _Start] = {}
        self._walk(self.tree.body, "", "")

    def find(self) -> list[Region]:
        steps = list(self._steps())
        self._check_names(steps)
        self._check_symbols()
        return sorted([*self.symbols, *steps], key=lambda r: (r.start, -r.end))

    def _walk(self, block: list[ast.stmt], scope: str, function: str) -> None:
        for index, statement in enumerate(block):
            place = (_first_line(statement), statement.col_offset)
            self.starts[place] = _Start(block, index, function, statement.col_offset)
            inner_scope, inner_function = scope, function
            if isinstance(statement, _SYMBOLS):
                inner_scope = f"{scope}.{statement.name}" if scope else statement.name
                self.symbols.append(_symbol(statement, inner_scope))
                is_class = isinstance(statement, ast.ClassDef)
                inner_function = "" if is_class else inner_scope
            for inner in _blocks(statement):
                self._walk(inner, inner_scope, inner_function)

    def _steps(self) -> Iterator[Region]:
        marks = list(self._marks())
        starts = [start for _, _, start in marks]
        for (line, match, start), text in zip(marks, self._texts(marks), strict=True):
            later = [
                other.index
                for other in starts
                if other.block is start.block and other.index > start.index
            ]
            last = start.block[min(later, default=len(start.block)) - 1]
            yield Region(
                kind="step",
                name=match[1],
                qualname=f"{start.function}.{match[1]}",
                start=line,
                end=last.end_lineno or line,
                function=start.function,
                text=text,
            )

    def _marks(self) -> Iterator[tuple[int, re.Match[str], _Start]]:
        """Each step comment, with the statement that it stands before."""
        depth = 0
        for index, token in enumerate(self.tokens):
            if token.type == tokenize.OP and token.string in "([{":
                depth += 1
            elif token.type == tokenize.OP and token.string in ")]}":
                depth -= 1
            match = token.type == tokenize.COMMENT and _STEP.fullmatch(token.string)
            if match:
                alone = not token.line[: token.start[1]].strip()
                yield token.start[0], match, self._start(index, match[1], depth, alone)

    def _start(self, index: int, name: str, depth: int, alone: bool) -> _Start:
        token = self.tokens[index]
        line, column = token.start
        if depth:
            raise self._error(line, f"step [{name}] stands inside brackets")
        if not alone:
            raise self._error(line, f"step [{name}] must stand alone on its line")
        following = next(t for t in self.tokens[index:] if t.type not in _SILENT)
        if following.string in _NOT_A_START and following.type == tokenize.NAME:
            raise self._error(line, f"step [{name}] stands before {following.string!r}")
        start = self.starts.get(following.start)
        if start is None or start.column != column:
            raise self._error(
                line, f"step [{name}] has no statement after it in its block"
            )
        if not start.function:
            raise self._error(line, f"step [{name}] stands outside any function")
        return start

    def _texts(
        self, marks: Sequence[tuple[int, re.Match[str], _Start]]
    ) -> Iterator[str]:
        comments = {
            t.start[0]: t.string
            for t in self.tokens
            if t.type == tokenize.COMMENT and not t.line[: t.start[1]].strip()
        }
        first_lines = {line for line, _, _ in marks}
        for line, match, _ in marks:
            words = [match[2].strip()]
            while (line := line + 1) in comments and line not in first_lines:
                words.append(comments[line].lstrip("#").strip())
            yield " ".join(word for word in words if word)

    def _check_names(self, steps: list[Region]) -> None:
        symbols = {symbol.name for symbol in self.symbols}
        seen: dict[str, Region] = {}
        for step in steps:
            if step.qualname in seen:
                first = seen[step.qualname].start
                raise self._error(
                    step.start, f"step [{step.name}] is already at line {first}"
                )
            if step.name in symbols:
                raise self._error(step.start, f"step [{step.name}] has a symbol's name")
            seen[step.qualname] = step

    def _check_symbols(self) -> None:
        """A name defined twice stands, for an address, for its last definition."""
        last = {symbol.qualname: symbol for symbol in self.symbols}
        self.symbols = [s for s in self.symbols if last[s.qualname] is s]

    def _error(self, line: int, message: str) -> CodewalkError:
        return CodewalkError(f"{self.path}:{line}: {message}")


def nest(regions: Sequence[Region]) -> list[Node]:
    """Regions as a tree; they come sorted, the outer before the inner."""
    roots: list[Node] = []
    open_nodes: list[Node] = []
    for region in regions:
        while open_nodes and open_nodes[-1].region.end < region.start:
            open_nodes.pop()
        node = Node(region)
        (open_nodes[-1].inner if open_nodes else roots).append(node)
        open_nodes.append(node)
    return roots


def sentence(text: str) -> str:
    """The first sentence of a step's comment."""
    match = re.match(r".+?[.?!](?=\s|$)", text)
    return match[0] if match else text


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(statement, name, None)
        if isinstance(block, list) and block:
            yield block
    for name in ("handlers", "cases"):
        for part in getattr(statement, name, []):
            yield part.body


def _symbol(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, qualname: str
) -> Region:
    end = node.end_lineno or node.lineno
    return Region("symbol", node.name, qualname, _first_line(node), end)


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])
