"""The way in for notebooks: what the site shows, and the references in it.

A notebook is shown with the outputs that its job recorded. mkdocs-jupyter turns
its Markdown into HTML by itself, so the links and images with our schemes are
found in that HTML. Attribute lists are not read there.
"""

import html
import json
import re
from collections.abc import Iterator

from codewalk.config import LANGUAGES, Project
from codewalk.digest import digest_source
from codewalk.errors import CodewalkError
from codewalk.markdown import Reading
from codewalk.records import Record, executed_copy
from codewalk.references import Library, scheme_of
from codewalk.render import fragments

# What mkdocs-jupyter adds for formulas and diagrams would come from other hosts.
_LOADERS = re.compile(
    r"<script (?:src=\"\"|type=\"(?:text/x-mathjax-config|module)\")[^>]*>"
    r".*?</script>|<!-- (?:Load|End of)? ?mathjax(?: configuration)? -->",
    re.DOTALL | re.IGNORECASE,
)
_CELL = re.compile(r"<div\b[^<>]*\bid=\"cell-id=")
_ALONE = re.compile(r"<p>\s*(<img\b[^>]*>)\s*</p>")
_IMAGE = re.compile(r"<img\b[^>]*>")
_LINK = re.compile(r"<a\b[^>]*>(.*?)</a>", re.DOTALL)
_ATTRIBUTE = re.compile(r"([\w-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")


def executed(library: Library) -> Iterator[tuple[str, str, Record | None]]:
    """The notebooks that jobs execute: job, page as both languages name it, record."""
    for job in library.project.jobs.jobs.values():
        if job.notebook:
            device = "cpu" if job.needs == "cpu" else library.project.device
            record = library.records.get((device, job.name))
            yield job.name, _page_of(library.project, job.notebook), record


def shown(library: Library, source: bytes, job: str, record: Record | None) -> bytes:
    """The notebook as the site shows it: its words, and the outputs of the run.

    Where its code has changed since, it is the executed copy as it was. Raises a
    CodewalkError where there is none, or where the record is of other code.
    """
    if record is None:
        raise CodewalkError(f"never executed; run: codewalk run {job}")
    copy = executed_copy(library.project, record)
    if digest_source("a.ipynb", source) != digest_source("a.ipynb", copy):
        if not library.changes(record):
            raise CodewalkError(f"its code is not what job {job} executes")
        return copy
    then, now = json.loads(copy), json.loads(source)
    outputs = [c["outputs"] for c in then["cells"] if c["cell_type"] == "code"]
    cells = [c for c in now["cells"] if c["cell_type"] == "code"]
    for number, (cell, output) in enumerate(zip(cells, outputs, strict=True), 1):
        cell.update(outputs=output, execution_count=number)
    return json.dumps(now, ensure_ascii=False).encode("utf-8")


def _page_of(project: Project, path: str) -> str:
    for language in LANGUAGES:
        path = path.removeprefix(f"{project.pages}/{language}/")
    return path


def resolve_html(text: str, reading: Reading) -> str:
    """`text` with every reference replaced by what it stands for."""
    text = _LOADERS.sub("", text)
    text = _ALONE.sub(lambda match: _image(match[1], match[0], reading), text)
    text = _IMAGE.sub(lambda match: _stray(match[0], reading), text)
    text = _LINK.sub(lambda match: _link(match, reading), text)
    for name, note in reading.notes.items():
        text = _above_cell(text, name, note)
    return text


def _above_cell(text: str, name: str, note: str) -> str:
    """The page with a note above the cell of that id, or under a title that it has.

    Where there is no such cell, it stands where it would above the first.
    """
    cell = re.search(rf"<div\b[^<>]*\bid=\"cell-id={re.escape(name)}\"", text)
    place = cell.start() if cell and name else 0
    following = _CELL.search(text, cell.end()) if cell else None
    title = text.find("</h1>", place, following.start() if following else len(text))
    place = title + len("</h1>") if title >= 0 else place
    return text[:place] + note + text[place:]


def _image(tag: str, whole: str, reading: Reading) -> str:
    target = _attribute(tag, "src")
    if not scheme_of(target):
        return whole
    page = reading.page
    try:
        found = page.library.resolve(target, page.language)
        return fragments.block(page, found, _attribute(tag, "alt"), {})
    except CodewalkError as error:
        return reading.problem(target, str(error))


def _stray(tag: str, reading: Reading) -> str:
    target = _attribute(tag, "src")
    if not scheme_of(target):
        return tag
    return reading.problem(target, f"{target}: an image stands alone in its paragraph")


def _link(match: re.Match[str], reading: Reading) -> str:
    opening = match[0][: match[0].index(">") + 1]
    target = _attribute(opening, "href")
    if not scheme_of(target):
        return match[0]
    page = reading.page
    try:
        found = page.library.resolve(target, page.language)
        return fragments.inline(page, found, match[1])
    except CodewalkError as error:
        return reading.problem(target, str(error))


def _attribute(tag: str, name: str) -> str:
    for match in _ATTRIBUTE.finditer(tag):
        if match[1] == name:
            return html.unescape(match[2] if match[2] is not None else match[3])
    return ""
