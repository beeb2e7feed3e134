"""The door for MkDocs: hooks that call the rooms, and nothing more."""

import datetime
import logging
import posixpath
import re
import tempfile
from pathlib import Path
from typing import Any, Literal

from mkdocs.config.base import Config
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.livereload import LiveReloadServer
from mkdocs.plugins import BasePlugin, event_priority
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page as SitePage
from mkdocs.utils.meta import get_data

from codewalk import bibliography, notebook, pages
from codewalk.citations import papers_path
from codewalk.config import LANGUAGES, find_root, read_project
from codewalk.coverage import coverage_page
from codewalk.errors import CodewalkError, Problem, report
from codewalk.explained import Explained, Text
from codewalk.markdown import CodewalkExtension, Reading
from codewalk.preview import Preview
from codewalk.records import Record
from codewalk.references import SCHEMES, Library
from codewalk.render.links import REFERENCES, Links, record_page, source_page
from codewalk.render.page import Page
from codewalk.render.problems import error_bar
from codewalk.render.results import staleness
from codewalk.render.unread import behind_note, unread_note
from codewalk.render.words import word
from codewalk.repository import Repository
from codewalk.reviews import read_reviews, reviews_path
from codewalk.scan import has_front_matter, markdown_of
from codewalk.sections import repeated_ids
from codewalk.source import SourceFile
from codewalk.unread import page_findings, when
from codewalk.upstream.places import upstream_path

_log = logging.getLogger("mkdocs.plugins.codewalk")
_UNRESOLVED = re.compile(
    rf"<\w[^<>]*\s(?:href|src)\s*=\s*[\"']?((?:{'|'.join(SCHEMES)}):[^\"'\s>]*)"
)
# What we put into a page's front matter ourselves.
_OWN_META = frozenset({"cw_twin", "cw_twin_exists"})


class NoOptions(Config):  # type: ignore[no-untyped-call]
    """Everything is set in pyproject.toml, which the command line reads too."""


class CodewalkPlugin(BasePlugin[NoOptions]):  # type: ignore[no-untyped-call]
    """Source pages, result pages, references; all errors of a build at once."""

    def on_startup(
        self, *, command: Literal["build", "gh-deploy", "serve"], dirty: bool
    ) -> None:
        # MkDocs keeps an instance that has this hook over the rebuilds of a
        # preview, so everything else is made anew in on_config.
        self.live = command == "serve"
        self.preview = Preview()

    def on_config(self, config: MkDocsConfig) -> MkDocsConfig:
        self.language = str(config.theme["language"])
        if self.language not in LANGUAGES:
            raise PluginError(
                f"codewalk speaks {', '.join(LANGUAGES)}, not {self.language}"
            )
        self.problems: list[Problem] = []
        self.generated: dict[str, SourceFile | Record | str] = {}
        self.notebooks: dict[str, tuple[Path, Record | None]] = {}
        try:
            self.project = read_project(find_root(Path(config.config_file_path).parent))
            self.library = Library(self.project)
            self.library.records  # noqa: B018 (a broken record is an error now)
            self.reviews = read_reviews(self.project)
            self.library.upstream, self.library.papers  # noqa: B018 (the same)
        except CodewalkError as error:
            raise PluginError(f"codewalk: {error}") from None
        self.explained = Explained(self.library, ())
        self.repository = Repository(self.project.root, self.project.repository)
        self.extension = CodewalkExtension(Reading(self._page("")))
        config.markdown_extensions.append(self.extension)  # type: ignore[arg-type]
        config.extra["build"] = {
            "commit": self.repository.commit[:12],
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        }
        return config

    def on_pre_build(self, *, config: MkDocsConfig) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="codewalk-")

    def on_build_error(self, *, error: Exception) -> None:
        # It may have come before there was a folder.
        if hasattr(self, "folder"):
            self.folder.cleanup()

    # First, so that mkdocs-jupyter finds the executed notebooks.
    @event_priority(100)
    def on_files(self, files: Files, *, config: MkDocsConfig) -> Files:
        self._show_executed(files, config)
        if self.live:
            themes = [Path(d) for d in config.theme.dirs]
            own = [d for d in themes if d.is_relative_to(self.project.root)]
            shared = [Path(config.docs_dir), Path(config.config_file_path), *own]
            self.preview.begin(str(config.extra["build"]), shared)
        sources = self.library.sources
        self._add(
            files, config, "source/index.md", word("source-title", self.language), ""
        )
        for path in sources.paths():
            try:
                file = sources.read(path)
                file.regions  # noqa: B018 (a malformed step is an error now)
            except CodewalkError as error:
                self.problems.append(
                    Problem(self.project.relative(path), 0, str(error))
                )
                continue
            self._add_source(files, config, file)
        self._add(
            files, config, "results/index.md", word("results-title", self.language), ""
        )
        for (device, job), record in self.library.records.items():
            address = record_page(device, job).rstrip("/")
            title = pages.record_title(self._page(""), record)
            self._add(files, config, f"{address}.md", title, record)
        title = word("references-title", self.language)
        self._add(files, config, f"{REFERENCES}index.md", title, "")
        title = word("coverage-title", self.language)
        self._add(files, config, "coverage/index.md", title, "")
        self.addresses = {file.src_uri: file.url for file in files}
        return files

    def on_nav(
        self, nav: Navigation, *, config: MkDocsConfig, files: Files
    ) -> Navigation:
        # In the reader's order, and before any page is rendered.
        ordered = dict.fromkeys([p.file.src_uri for p in nav.pages])
        ordered.update(dict.fromkeys(f.src_uri for f in files.documentation_pages()))
        texts = [self._text(files, uri) for uri in ordered if uri not in self.generated]
        self.explained = Explained(self.library, texts)
        return nav

    def on_page_markdown(
        self, markdown: str, *, page: SitePage, config: MkDocsConfig, files: Files
    ) -> str:
        whole = page.file.content_string.rstrip()
        self.extension.reading = Reading(
            page=self._page(page.file.url),
            path=self._path(page.file),
            lines_before=whole.count("\n") - markdown.rstrip().count("\n"),
            walk=page.meta.get("layout") == "walk",
        )
        if page.meta.get("layout") not in (None, "walk"):
            what = f"layout: {page.meta['layout']}: expected walk, or no such line"
            self.extension.reading.problem("", what)
        if page.file.src_uri not in self.generated:
            self._read_reviews(self.extension.reading, page.file.content_string)
        self._set_twin(page, files)
        self._check_text(page, whole)
        return markdown

    # Last, so that a notebook has been turned into HTML.
    @event_priority(-100)
    def on_page_content(
        self, html: str, *, page: SitePage, config: MkDocsConfig, files: Files
    ) -> str:
        uri = page.file.src_uri
        if uri in self.generated:
            return self._generated(uri, page.file.url)
        if uri.endswith(".ipynb"):
            self.extension.reading = Reading(
                self._page(page.file.url), self._path(page.file)
            )
            self._set_twin(page, files)
            self._note_age(uri)
            self._read_reviews(self.extension.reading, page.file.content_string)
            html = notebook.resolve_html(html, self.extension.reading)
        reading = self.extension.reading
        self.problems += reading.problems
        for warning in reading.warnings:
            _log.warning(str(warning))
        return self._with_notes(html, reading)

    def on_post_page(self, output: str, *, page: SitePage, config: MkDocsConfig) -> str:
        if self.live:
            self.preview.keep(page.file.src_uri, output)
        return output

    def on_env(self, env: Any, *, config: MkDocsConfig, files: Files) -> Any:
        """All pages are rendered and none is written: the time to give up."""
        if self.problems:
            if not self.live:
                raise PluginError(report(self.problems))
            _log.error(report(self.problems))
        return env

    def on_post_build(self, *, config: MkDocsConfig) -> None:
        """Finds references that nobody resolved, in raw HTML for instance."""
        self.folder.cleanup()
        left = []
        for path in sorted(Path(config.site_dir).rglob("*.html")):
            text = re.sub(
                r"<!--.*?-->", "", path.read_text(encoding="utf-8"), flags=re.DOTALL
            )
            for match in _UNRESOLVED.finditer(text):
                name = path.relative_to(config.site_dir).as_posix()
                left.append(Problem(name, 0, f"nobody resolved {match[1]}"))
        if left and not self.live:
            raise PluginError(report(left))
        if left:
            _log.error(report(left))

    def on_serve(
        self, server: LiveReloadServer, *, config: MkDocsConfig, builder: Any
    ) -> None:
        project = self.project
        folders = [*project.sources.values(), project.results, project.figures]
        files = [project.jobs_path, "pyproject.toml"]
        watched = [
            *(project.root / name for name in (*folders, *files)),
            *(reviews_path(project), upstream_path(project), papers_path(project)),
            *(
                d
                for d in map(Path, config.theme.dirs)
                if d.is_relative_to(project.root)
            ),
        ]
        for path in watched:
            if path.exists():
                server.watch(str(path))

    def _add_source(self, files: Files, config: MkDocsConfig, file: SourceFile) -> None:
        """The page of a source file; in a preview, as it was where it is the same."""
        address = source_page(self.library.sources.address(file.path))
        uri = f"{address.rstrip('/')}.md"
        if self.live:
            body = pages.source_page(self._page(address), file)
            whole = self.preview.page(uri, body)
            if whole is not None:
                name = f"{address}index.html"
                files.append(File.generated(config, name, content=whole))
                self.generated[uri] = file
                return
        self._add(files, config, uri, file.name, file)

    def _add(
        self,
        files: Files,
        config: MkDocsConfig,
        uri: str,
        title: str,
        content: SourceFile | Record | str,
    ) -> None:
        # Out of the search: it would find a word in every file of the tree.
        text = f"---\ntitle: {title!r}\nsearch:\n  exclude: true\nhide: [toc]\n---\n"
        inclusion = (
            InclusionLevel.INCLUDED
            if uri.endswith("/index.md")
            else InclusionLevel.NOT_IN_NAV
        )
        files.append(File.generated(config, uri, content=text, inclusion=inclusion))
        self.generated[uri] = content

    def _show_executed(self, files: Files, config: MkDocsConfig) -> None:
        """Puts what the jobs made of them in place of the notebooks."""
        folder = self.folder.name
        for job, uri, record in notebook.executed(self.library):
            file = files.get_file_from_path(uri)
            if file is None or file.abs_src_path is None:
                continue
            source = Path(file.abs_src_path)
            try:
                data = notebook.shown(self.library, source.read_bytes(), job, record)
            except CodewalkError as error:
                name = self.project.relative(source)
                self.problems.append(Problem(name, 0, str(error)))
                continue
            target = Path(folder, uri)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            files.remove(file)
            files.append(File(uri, folder, config.site_dir, config.use_directory_urls))
            self.notebooks[uri] = (source, record)

    def _note_age(self, uri: str) -> None:
        """Says of a notebook that it was executed with other code than there is."""
        _, record = self.notebooks.get(uri, (None, None))
        if record and (changes := self.library.changes(record)):
            age = staleness(record, changes, self.language)
            self.extension.reading.page.stale.append(age)

    def _generated(self, uri: str, url: str) -> str:
        content, page = self.generated[uri], self._page(url)
        if isinstance(content, SourceFile):
            return pages.source_page(page, content)
        if isinstance(content, Record):
            return pages.record_page(page, content)
        if uri.startswith(REFERENCES):
            return bibliography.references_page(page, self.addresses)
        index = {
            "source/index.md": pages.source_index,
            "results/index.md": pages.results_index,
            "coverage/index.md": coverage_page,
        }
        return index[uri](page)

    def _read_reviews(self, reading: Reading, text: str) -> None:
        """Finds what of a page's code has changed since the page was read."""
        reading.behind = page_findings(self.library, self.reviews, reading.path, text)
        reading.notes = {
            name: unread_note(
                found, when(self.library, found, self.reviews), self.language
            )
            for name, found in reading.behind.items()
        }

    def _page(self, url: str) -> Page:
        page = Page(self.library, self.repository, Links(url), self.language)
        page.explained = self.explained
        return page

    def _text(self, files: Files, uri: str) -> Text:
        """A page as its author wrote it; of a notebook, its Markdown."""
        file = files.src_uris[uri]
        if uri.endswith(".ipynb"):
            return Text(file.url, "", markdown_of(file.content_string))
        _, meta = get_data(file.content_string)
        return Text(file.url, str(meta.get("title") or ""), file.content_string)

    def _path(self, file: File) -> str:
        path = Path(file.abs_src_path or self.project.root)
        source, _ = self.notebooks.get(file.src_uri, (path, None))
        return self.project.relative(source)

    def _check_text(self, page: SitePage, text: str) -> None:
        """What would be shown wrong without anyone noticing."""
        problems = self.extension.reading.problems
        path = self.extension.reading.path
        if has_front_matter(text) and not page.meta.keys() - _OWN_META:
            problems.append(Problem(path, 1, "the front matter is no YAML mapping"))
        for line, name in repeated_ids(text):
            problems.append(Problem(path, line, f"a second section of the id {name}"))

    def _set_twin(self, page: SitePage, files: Files) -> None:
        """Tells the theme where the same page stands in the other language."""
        other = next(name for name in LANGUAGES if name != self.language)
        uri = page.file.src_uri
        folder = self.project.root / self.project.pages / other
        exists = uri in self.generated or (folder / uri).is_file()
        target = f"/{other}/{page.file.url if exists else ''}"
        here = f"/{self.language}/{page.file.url}"
        start = here if here.endswith("/") else posixpath.dirname(here)
        page.meta["cw_twin"] = posixpath.relpath(target, start) + "/"
        page.meta["cw_twin_exists"] = exists

    def _with_notes(self, html: str, reading: Reading) -> str:
        """A page with what a reader should know first: its errors, its old values."""
        if reading.behind or reading.page.stale:
            note = behind_note(reading.behind, reading.page.stale, self.language)
            html = re.sub(r"(</h1>)", lambda match: match[0] + note, html, count=1)
        if self.live and reading.problems:
            html = error_bar(reading.problems, self.language) + html
        return html
