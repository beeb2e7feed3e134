"""What rendering needs to know of the page that it renders for."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from codewalk.config import Project
from codewalk.explained import Explained
from codewalk.references import Library
from codewalk.render.links import Links
from codewalk.repository import Repository

# More lines beside the text are taller than a window.
PANE_LINES = 30


@dataclass
class Page:
    """A page in the making."""

    library: Library
    repository: Repository
    links: Links
    language: str
    stale: list[str] = field(default_factory=list)  # why a value on it is old
    embeds: int = 0
    prints_source: bool = True  # on paper, the first value of a section says whence

    # On a walk page: where each region that it embeds is, by file and name.
    walk: Mapping[tuple[str, str], str] | None = None
    explained: Explained = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.explained = Explained(self.library, ())

    @property
    def project(self) -> Project:
        return self.library.project

    def next_id(self) -> str:
        """An id for the next embed."""
        self.embeds += 1
        return f"cw-embed-{self.embeds}"

    def first_value(self) -> bool:
        """Whether this is the first value of its section; asked once for each."""
        first, self.prints_source = self.prints_source, False
        return first
