"""How a symbol stands on a line of another project's file.

    definition   its name is bound there: a function, a class, a variable
    use          it stands in code, and binds nothing
    text         it stands in a comment, a docstring or prose

Python is read by its syntax tree: a definition is a `def`, a `class` or an
assignment (not an augmented one, not an element of an array) that begins where
the symbol begins, or whose name does. Python that does not parse, such as a
Jinja template of it, is judged by the line alone: `def NAME`, `class NAME`, or
`NAME =` at its beginning.

C++ and CUDA are judged by what stands between the last `;`, `{` or `}` and the
name. If that is nothing but the words of a type (`template <…>` and
`__launch_bounds__(…)` left aside) and the name is followed by what can follow a
declared name, it is a definition: a function, a variable, a lambda, a struct, a
`using`; so is the name of a `#define`. Parameters, members after the first of a
declaration, and what a macro declares are not seen as definitions.

In prose a heading, underlined or with `#` before it, defines; all else is text.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence

DEFINITION, USE, TEXT = ROLES = ("definition", "use", "text")

_C_FAMILY = (".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp")
_PROSE = (".md", ".rst", ".txt")
_C_SILENT = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", re.DOTALL
)
_ASIDE = re.compile(
    r"__launch_bounds__\s*\((?:[^()]|\([^()]*\))*\)|\[\[[^\]]*\]\]"
    r"|\btemplate\s*<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>"
    r"|^\s*#[^\n]*$|\b(?:public|private|protected)\s*:",
    re.MULTILINE,
)
_ARGUMENTS = r"<(?:[^<>;{}]|<(?:[^<>;{}]|<[^<>;{}]*>)*>)*>"
_TYPE_WORDS = re.compile(rf"(?:[A-Za-z_][\w:]*(?:{_ARGUMENTS})?(?:::\w+)*[\s&*]+)+")
_NO_TYPES = frozenset(
    {"return", "else", "case", "goto", "new", "delete", "throw", "if", "while", "for"}
    | {"switch", "do", "sizeof", "typename", "co_return", "co_await", "co_yield"}
)
_FOLLOWS = re.compile(r"\s*(?:\(|=(?!=)|\{|\[|;|,|:(?!:)|$)")
_WORD = re.compile(r"[A-Za-z_]\w*")
_LINE_DEFINITION = re.compile(
    r"\s*(?:(?:async\s+)?def\s+|class\s+)?(?P<name>[A-Za-z_]\w*)"
)


def role_of(path: str, lines: Sequence[str], number: int, symbol: str) -> str:
    """The best role in which `symbol` stands on line `number`; "" if it does not."""
    line = lines[number - 1] if 1 <= number <= len(lines) else ""
    places = list(_occurrences(line, symbol))
    if not places:
        return ""
    if path.endswith(_PROSE):
        return DEFINITION if _is_heading(lines, number) else TEXT
    if path.endswith(_C_FAMILY):
        roles = _c_roles(lines, number, symbol, places)
    else:
        roles = _python_roles(lines, number, symbol, places)
    return min(roles, key=ROLES.index)


def lines_with(path: str, lines: Sequence[str], symbol: str, role: str) -> list[int]:
    """The lines where `symbol` stands in that role."""
    return [
        number
        for number, line in enumerate(lines, 1)
        if symbol in line and role_of(path, lines, number, symbol) == role
    ]


def _occurrences(line: str, symbol: str) -> Iterator[int]:
    """Where the symbol stands, and not merely the beginning or end of a word."""
    before = r"(?<!\w)" if re.match(r"\w", symbol) else ""
    after = r"(?!\w)" if re.search(r"\w\Z", symbol) else ""
    pattern = f"{before}{re.escape(symbol)}{after}"
    return (match.start() for match in re.finditer(pattern, line))


def _is_heading(lines: Sequence[str], number: int) -> bool:
    title = lines[number - 1].rstrip()
    under = lines[number].rstrip() if number < len(lines) else ""
    drawn = len(set(under)) == 1 and under[0] in "=-~^\"'`#*+."
    return title.startswith("#") or (drawn and len(under) >= len(title) > 0)


def _c_roles(
    lines: Sequence[str], number: int, symbol: str, places: Sequence[int]
) -> list[str]:
    text = "\n".join(lines)
    clear = _C_SILENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    begin = sum(len(line) + 1 for line in lines[: number - 1])
    found = []
    for place in places:
        at = begin + place
        if clear[at : at + len(symbol)].strip() == "":
            # A string is code too; only a comment is text.
            in_string = text[:at].rpartition("\n")[2].count('"') % 2 == 1
            found.append(USE if in_string else TEXT)
        else:
            defines = any(
                _declares(clear, at + word.start(), at + word.end())
                for word in _WORD.finditer(clear[at : at + len(symbol)])
            )
            found.append(DEFINITION if defines else USE)
    return found


def _declares(clear: str, start: int, end: int) -> bool:
    """Whether the word from `start` to `end` is a name being declared."""
    line = clear[clear.rfind("\n", 0, start) + 1 : start]
    if re.fullmatch(r"\s*#\s*define\s+", line):
        return True
    cut = max(clear.rfind(mark, 0, start) for mark in ";{}")
    head = _ASIDE.sub(" ", clear[cut + 1 : start]).lstrip()
    words = set(_WORD.findall(head))
    return bool(
        _TYPE_WORDS.fullmatch(head)
        and not words & _NO_TYPES
        and _FOLLOWS.match(clear, end)
    )


def _python_roles(
    lines: Sequence[str], number: int, symbol: str, places: Sequence[int]
) -> list[str]:
    text = "\n".join(lines) + "\n"
    line = lines[number - 1]
    try:
        starts = set(_binding_columns(ast.parse(text), number, line))
        silent = list(_silent_columns(text, number))
    except (SyntaxError, ValueError, tokenize.TokenError):
        starts = set(_line_columns(line))
        silent = [range(line.find("#"), len(line))] if "#" in line else []
    found = []
    for place in places:
        if place in starts:
            found.append(DEFINITION)
        else:
            found.append(TEXT if any(place in part for part in silent) else USE)
    return found


def _binding_columns(tree: ast.Module, number: int, line: str) -> Iterator[int]:
    """The columns of a line where something that binds a name begins."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if node.lineno == number:
                yield _column(line, node.col_offset)
                yield line.index(node.name, _column(line, node.col_offset) + 3)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                named = isinstance(target, ast.Name | ast.Tuple | ast.List)
                if named and target.lineno == number:
                    yield _column(line, target.col_offset)


def _column(line: str, offset: int) -> int:
    """The column of an offset in UTF-8."""
    return len(line.encode()[:offset].decode())


def _silent_columns(text: str, number: int) -> Iterator[range]:
    """The columns of a line that are a comment or a docstring."""
    previous = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        alone = token.type == tokenize.STRING and previous in (
            tokenize.NEWLINE,
            tokenize.INDENT,
            tokenize.DEDENT,
        )
        if token.type == tokenize.COMMENT or alone:
            (first, start), (last, end) = token.start, token.end
            if first <= number <= last:
                yield range(
                    start if number == first else 0,
                    end if number == last else len(token.line) + 1,
                )
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            previous = token.type


def _line_columns(line: str) -> Iterator[int]:
    match = _LINE_DEFINITION.match(line)
    if not match:
        return
    keyword = line[: match.start("name")].strip()
    assigned = re.match(r"(?:\s*,\s*\w+)*\s*(?::[^=]+)?=(?!=)", line[match.end() :])
    if keyword or assigned:
        yield len(line) - len(line.lstrip())
        yield match.start("name")
