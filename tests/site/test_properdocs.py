"""The generator can be changed: ProperDocs builds the same book from mkdocs.yml."""

import re
from pathlib import Path

from conftest import ROOT, Site
from example_copy import python

# Who has built a page, from which commit and on which day.
_BUILD = re.compile(
    r'<meta name="generator"[^>]*>|<p class="cw-print-line">.*?</p>', re.DOTALL
)


def pages(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): _BUILD.sub("", path.read_text("utf-8"))
        for path in folder.rglob("*.html")
    }


def test_properdocs_builds_the_pages_that_mkdocs_builds(
    site: Site, tmp_path: Path
) -> None:
    words = ("--strict", "--quiet", "--config-file", "mkdocs.yml")
    done = python(
        ROOT, "-m", "properdocs", "build", *words, "--site-dir", str(tmp_path)
    )
    assert done.returncode == 0, done.stderr
    assert "ProperDocs" in (tmp_path / "index.html").read_text(encoding="utf-8")
    theirs, ours = pages(tmp_path), pages(site.folder / "en")
    assert "cw-embed" in ours["forward/main-loop/index.html"]
    assert theirs.keys() == ours.keys()
    assert not [name for name in ours if theirs[name] != ours[name]]
