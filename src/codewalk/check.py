"""Everything that can be checked without building the site."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from codewalk import names, unread
from codewalk.config import LANGUAGES, Project
from codewalk.errors import CodewalkError, Problem
from codewalk.references import Library
from codewalk.reviews import read_reviews, reviews_path
from codewalk.scan import markdown_of, read_page, references


def problems(project: Project) -> list[Problem]:
    """What is wrong with the sources, the jobs, the records and the pages."""
    library = Library(project)
    return [
        *_sources(library),
        *_loading(project.jobs_path, lambda: project.jobs),
        *_loading(project.results, lambda: library.records),
        *_loading(
            project.relative(reviews_path(project)), lambda: read_reviews(project)
        ),
        *_loading(project.pages, lambda: library.upstream),
        *_loading(project.pages, lambda: library.papers),
        *_pages(library),
        *unread.problems(library),
        *names.problems(library),
    ]


def _sources(library: Library) -> Iterator[Problem]:
    """Files that do not parse, and steps that are malformed."""
    for path in library.sources.paths():
        name = library.project.relative(path)
        yield from _loading(name, partial(_regions, library, path))


def _regions(library: Library, path: Path) -> object:
    return library.sources.read(path).regions


def _pages(library: Library) -> Iterator[Problem]:
    """References that lead nowhere."""
    for language in LANGUAGES:
        folder = library.project.root / library.project.pages / language
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".md", ".ipynb"):
                yield from _page(library, path, language)


def _page(library: Library, path: Path, language: str) -> Iterator[Problem]:
    name = library.project.relative(path)
    is_notebook = path.suffix == ".ipynb"
    text = read_page(path, name)
    for found in references(markdown_of(text) if is_notebook else text):
        try:
            library.resolve(found.target, language, found.optional)
        except CodewalkError as error:
            yield Problem(name, 0 if is_notebook else found.line, str(error))


def _loading(path: str, load: Callable[[], object]) -> Iterator[Problem]:
    try:
        load()
    except CodewalkError as error:
        yield Problem(path, 0, str(error))
