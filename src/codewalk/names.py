"""Names written as code in the prose: whether the code still has them.

In a section that refers to source files, what stands between backticks and looks
like an identifier (it has an underscore or a dot, or is called) must be in one of
these files, in the kernel that the page's front matter names, or in the list of
names that are somebody else's: `names.txt` beside the pages, one a line.
"""

import ast
import builtins
import io
import keyword
import re
import tokenize
from collections.abc import Iterator
from functools import lru_cache

from codewalk.config import LANGUAGES, Project
from codewalk.errors import CodewalkError, Problem, nearest
from codewalk.pairs import Pair
from codewalk.references import CODE_SCHEMES, Library, Source, scheme_of
from codewalk.scan import inline_code, read_page
from codewalk.sections import Section, sections

_STRING = re.compile(r"\"[^\"]*\"|'[^']*'")
# Not what is part of a path, an option or a word with hyphens.
_NAME = re.compile(
    r"(?<![\w./\\-])([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(\()?(?![\w/\\-]|\.\w)", re.ASCII
)
_FILE = re.compile(r".+\.(?:py|md|json|toml|txt|yml|ipynb|svg|h|hpp|cu|cuh|cpp|so)")
_KERNEL = re.compile(r"\A---[ \t]*\n(?:(?!---).*\n)*?kernel:[ \t]*(\S+)[ \t]*\n")
_ALWAYS = frozenset(dir(builtins)) | frozenset(keyword.kwlist)


def problems(library: Library) -> Iterator[Problem]:
    """Names on the pages that neither the code nor the list has."""
    listed = library_names(library.project)
    root = library.project.root / library.project.pages
    for language in LANGUAGES:
        for path in sorted((root / language).rglob("*.md")):
            name = library.project.relative(path)
            text = read_page(path, name).replace("\r\n", "\n")
            yield from _page(library, listed, name, text)


def _page(
    library: Library, listed: frozenset[str], path: str, text: str
) -> Iterator[Problem]:
    code = inline_code(text)
    for section in sections(text) if code else []:
        known = _known(library, section, kernel_of(text))
        for line, words in code if known else ():
            if section.start <= line <= section.end:
                for name in unknown_names(words, known | listed):
                    where = "the files that this section refers to"
                    message = f"no {name!r} in {where}; {nearest(name, known)}"
                    yield Problem(path, line, message)


def unknown_names(words: str, known: frozenset[str]) -> list[str]:
    """The names in a piece of inline code that look like identifiers and are none."""
    found = []
    for match in _NAME.finditer(_STRING.sub('""', words)):
        name, called = match[1], bool(match[2])
        looks = called or "_" in name.strip("_") or "." in name
        if looks and not _FILE.fullmatch(name) and name not in known | _ALWAYS:
            found.append(name)
    return found


def library_names(project: Project) -> frozenset[str]:
    """The names that need not be in our code; a `#` begins a comment."""
    path = project.root / project.pages / "names.txt"
    if not path.is_file():
        return frozenset()
    lines = path.read_text(encoding="utf-8").splitlines()
    return frozenset(line.partition("#")[0].strip() for line in lines) - {""}


def kernel_of(text: str) -> str:
    """The file that a chapter goes through, as its front matter says; or empty."""
    match = _KERNEL.match(text)
    return match[1] if match else ""


def _known(library: Library, section: Section, kernel: str) -> frozenset[str]:
    """The names of the files that a section refers to, and of its chapter's kernel.

    Empty where it refers to no file, or to one that is not there: that is
    reported as what it is.
    """
    targets = [f.target for f in section.found if scheme_of(f.target) in CODE_SCHEMES]
    if not targets:
        return frozenset()
    if kernel:
        targets.append(f"src:{kernel}")
    known: set[str] = set()
    for target in targets:
        try:
            reference = library.resolve(target, LANGUAGES[0])
        except CodewalkError:
            return frozenset()
        if isinstance(reference, Source | Pair):
            for span in reference.spans:
                known |= names_of(span.file.text)
    return frozenset(known)


@lru_cache(maxsize=64)
def names_of(text: str) -> frozenset[str]:
    """All names in a Python text, those with dots in every part that is written."""
    try:
        tree = ast.parse(text)
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (SyntaxError, ValueError, tokenize.TokenError):
        return frozenset(re.findall(r"[A-Za-z_]\w*", text))
    names = {token.string for token in tokens if token.type == tokenize.NAME}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            names |= _parts(ast.unparse(node))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                names |= _parts(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= _parts(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{name}" for name in _members(node)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # An option, a column or a key: a string that is one name.
            names |= {node.value} if node.value.isidentifier() else set()
    return frozenset(names)


def _members(node: ast.ClassDef) -> Iterator[str]:
    for child in node.body:
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield child.name
        elif isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name):
            yield child.target.id
        elif isinstance(child, ast.Assign):
            yield from (t.id for t in child.targets if isinstance(t, ast.Name))


def _parts(dotted: str) -> set[str]:
    """`a.b.c` as a.b.c, a.b, b.c and the names alone."""
    words = dotted.split(".")
    ends = range(1, len(words) + 1)
    return {".".join(words[i:j]) for j in ends for i in range(j)}
