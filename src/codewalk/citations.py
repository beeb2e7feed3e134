"""docs/papers.json: what the book cites, and how a citation is marked."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codewalk.config import LANGUAGES, Project
from codewalk.errors import CodewalkError, nearest

FILE = "papers.json"
_KEYS = {
    "id": str,
    "title": str,
    "authors": list,
    "year": int,
    "mark": str,
    "venue": str,
    "arxiv": str,
    "url": str,
    "sections": list,
}
_OPTIONAL: Mapping[str, Any] = {"year": 0, "mark": "", "arxiv": ""}
_ET_AL = {"en": " et al.", "zh": " 等"}


@dataclass(frozen=True)
class Part:
    """A section of a paper that the book uses, and what it says, in each language
    that the book has pages in.
    """

    ref: str
    about: Mapping[str, str]


@dataclass(frozen=True)
class Paper:
    """One entry. `mark` replaces the authors' names in a citation."""

    id: str
    title: str
    authors: tuple[str, ...]
    year: int
    mark: str
    venue: str
    arxiv: str
    url: str
    sections: tuple[Part, ...]
    letter: str = ""  # tells papers apart whose marks would be the same

    def short(self, language: str) -> str:
        """`Dao 2023`, `Shah et al. 2024`."""
        name = self.mark or self.authors[0].split()[-1]
        if not self.mark and len(self.authors) == 2:
            name += f" & {self.authors[1].split()[-1]}"
        elif not self.mark and len(self.authors) > 2:
            name += _ET_AL[language]
        return f"{name} {self.year}{self.letter}" if self.year else name + self.letter


def papers_path(project: Project) -> Path:
    return project.root / project.pages / FILE


def read_papers(path: Path) -> Mapping[str, Paper]:
    """The entries by their id; an absent file is a book that cites nothing."""
    if not path.is_file():
        return {}
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CodewalkError(f"{FILE}: {error}") from None
    _expect(entries, list, FILE)
    spoken = [name for name in LANGUAGES if (path.parent / name).is_dir()]
    found: dict[str, Paper] = {}
    for number, entry in enumerate(entries):
        paper = _paper(entry, spoken, f"{FILE}: entry {number}")
        if paper.id in found:
            raise CodewalkError(f"{FILE}: two entries have the id {paper.id!r}")
        found[paper.id] = paper
    return _lettered(found)


def find_paper(papers: Mapping[str, Paper], identity: str) -> Paper:
    if identity not in papers:
        raise CodewalkError(
            f"cite:{identity}: no such entry in {FILE}; {nearest(identity, papers)}"
        )
    return papers[identity]


def _paper(entry: Any, spoken: Sequence[str], where: str) -> Paper:
    _expect(entry, dict, where)
    for key in entry:
        if key not in _KEYS:
            raise CodewalkError(f"{where}: no {key!r}; {nearest(key, _KEYS)}")
    for key, kind in _KEYS.items():
        if key not in entry and key not in _OPTIONAL:
            raise CodewalkError(f"{where}: says no {key!r}")
        if key in entry:
            _expect(entry[key], kind, f"{where}: {key}")
    if not re.fullmatch(r"[a-z0-9-]+", entry["id"]):
        raise CodewalkError(f"{where}: {entry['id']!r} is no id: a-z, 0-9 and '-' are")
    if not entry["authors"] or not all(
        isinstance(name, str) and name.strip() for name in entry["authors"]
    ):
        raise CodewalkError(f"{where}: authors: expected names")
    if not entry["url"].startswith("https://"):
        raise CodewalkError(f"{where}: url: expected https://…, got {entry['url']!r}")
    fields = {**_OPTIONAL, **entry}
    fields["authors"] = tuple(entry["authors"])
    fields["sections"] = tuple(_part(part, spoken, where) for part in entry["sections"])
    return Paper(**fields)


def _part(part: Any, spoken: Sequence[str], where: str) -> Part:
    _expect(part, dict, f"{where}: sections")
    if sorted(part) != ["about", "ref"] or not isinstance(part["ref"], str):
        raise CodewalkError(f"{where}: sections: expected 'ref' and 'about'")
    about = _expect(part["about"], dict, f"{where}: about")
    if not set(spoken) <= set(about) <= set(LANGUAGES):
        raise CodewalkError(f"{where}: about: expected {' and '.join(spoken)}")
    for text in about.values():
        _expect(text, str, f"{where}: about")
    return Part(part["ref"], about)


def _lettered(papers: Mapping[str, Paper]) -> Mapping[str, Paper]:
    """With letters where two papers would have one mark."""
    total = Counter(paper.short("en") for paper in papers.values())
    seen: Counter[str] = Counter()
    found = {}
    for identity, paper in papers.items():
        mark = paper.short("en")
        letter = "abcdefghijklmnopqrstuvwxyz"[seen[mark]] if total[mark] > 1 else ""
        seen[mark] += 1
        found[identity] = Paper(**{**vars(paper), "letter": letter})
    return found


def _expect(value: Any, kind: type, where: str) -> Any:
    if type(value) is not kind:
        raise CodewalkError(f"{where}: expected {kind.__name__}, got {value!r:.80}")
    return value
