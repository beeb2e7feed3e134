"""Where things stand on the site, as links from one page to another."""

import posixpath
from dataclasses import dataclass
from urllib.parse import quote, unquote

# The site address of the references page.
REFERENCES = "references/"


@dataclass(frozen=True)
class Links:
    """Makes links that work under any host, path and port: all are relative."""

    page: str  # the page's own address from the site's root, such as "forward/loop/"

    def source(self, address: str, start: int = 0, end: int = 0) -> str:
        """To a source page, or to lines on it."""
        fragment = f"#{line_anchor(start, end)}" if start else ""
        return self.to(source_page(address)) + fragment

    def record(self, device: str, job: str, row: int | None = None) -> str:
        """To a record, or to a row of it."""
        fragment = "" if row is None else f"#{row_anchor(row)}"
        return self.to(record_page(device, job)) + fragment

    def references(self, anchor: str) -> str:
        """To an entry of the references page."""
        return f"{self.to(REFERENCES)}#{anchor}"

    def section(self, url: str, anchor: str) -> str:
        """To a section of a page, given by the page's address."""
        return self.to(unquote(url)) + (f"#{quote(anchor)}" if anchor else "")

    def to(self, address: str) -> str:
        """To a page, given by its address from the site's root."""
        here = self.page if self.page.endswith("/") else posixpath.dirname(self.page)
        relative = posixpath.relpath("/" + address, "/" + here)
        return quote(relative) + "/"


def source_page(address: str) -> str:
    """The site address of a source file's page, with a slash at its end."""
    return f"source/{address}/"


def record_page(device: str, job: str) -> str:
    """The site address of a record's page, with a slash at its end."""
    return f"results/{device}/{job}/"


def line_anchor(start: int, end: int) -> str:
    return f"L{start}-L{end}"


def row_anchor(row: int) -> str:
    return f"row-{row + 1}"
