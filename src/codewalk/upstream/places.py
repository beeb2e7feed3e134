"""docs/upstream.json: lines of other projects at pinned commits.

It holds no line of theirs, only where the lines stand and the hash of them. The
projects come first, each with its pinned commit; a place names its project and
has a commit of its own only where that differs. `sha256` is that of the lines
`start_line` to `end_line` as the file has them, each with its line end.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codewalk.config import Project
from codewalk.errors import CodewalkError, nearest
from codewalk.upstream.roles import ROLES

FILE = "upstream.json"
COMMIT = re.compile(r"[0-9a-f]{40}")
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
_PROJECT_KEYS = {"name": str, "repo": str, "commit": str, "license": str}
_PLACE_KEYS = {
    "id": str,
    "label": str,
    "commit": str,
    "path": str,
    "symbol": str,
    "role": str,
    "symbol_line": int,
    "start_line": int,
    "end_line": int,
    "sha256": str,
    "license": str,
    "concept": str,
    "what": str,
}
_OPTIONAL = frozenset({"commit", "license"})


@dataclass(frozen=True)
class Pinned:
    """Another project, under the label that its chips show."""

    label: str
    name: str
    repo: str
    commit: str
    license: str


@dataclass(frozen=True)
class Place:
    """Lines of a file of another project, and the symbol that they are about.

    role: how the symbol stands on its line, one of ROLES. license: of the file,
    where it is not the project's.
    """

    id: str
    project: Pinned
    commit: str
    path: str
    symbol: str
    role: str
    symbol_line: int
    start_line: int
    end_line: int
    sha256: str
    license: str
    concept: str
    what: str

    @property
    def name(self) -> str:
        """The file's name, without its folders."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class Upstream:
    """What upstream.json says."""

    projects: Mapping[str, Pinned]
    places: Mapping[str, Place]

    def place(self, identity: str) -> Place:
        if identity not in self.places:
            raise CodewalkError(
                f"up:{identity}: no such place in {FILE}; "
                + nearest(identity, self.places)
            )
        return self.places[identity]


def upstream_path(project: Project) -> Path:
    return project.root / project.pages / FILE


def read_upstream(path: Path) -> Upstream:
    """The file, checked; an absent one is a book that points nowhere else."""
    if not path.is_file():
        return Upstream({}, {})
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CodewalkError(f"{FILE}: {error}") from None
    _expect(table, dict, FILE)
    if sorted(table) != ["places", "projects"]:
        raise CodewalkError(f"{FILE}: expected 'projects' and 'places'")
    projects = {
        label: _project(label, entry)
        for label, entry in _expect(table["projects"], dict, "projects").items()
    }
    places: dict[str, Place] = {}
    for number, entry in enumerate(_expect(table["places"], list, "places")):
        place = _place(entry, f"place {number}", projects)
        if place.id in places:
            raise CodewalkError(f"{FILE}: two places have the id {place.id!r}")
        places[place.id] = place
    return Upstream(projects, places)


def format_upstream(upstream: Upstream) -> str:
    """The text of the file: one project and one place a line."""
    projects = [
        f"    {_dump(p.label)}: "
        + _dump({key: getattr(p, key) for key in _PROJECT_KEYS})
        for p in upstream.projects.values()
    ]
    places = [f"    {_dump(_row(place))}" for place in upstream.places.values()]
    return (
        '{\n  "projects": {\n'
        + ",\n".join(projects)
        + '\n  },\n  "places": [\n'
        + ",\n".join(places)
        + "\n  ]\n}\n"
    )


def write_upstream(path: Path, upstream: Upstream) -> None:
    """Writes the file whole, through a temporary one beside it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(format_upstream(upstream), encoding="utf-8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _row(place: Place) -> dict[str, Any]:
    found = {key: getattr(place, key, "") for key in _PLACE_KEYS}
    found["label"] = place.project.label
    if place.commit == place.project.commit:
        del found["commit"]
    if not place.license:
        del found["license"]
    return found


def _project(label: str, entry: Any) -> Pinned:
    where = f"project {label!r}"
    fields = _fields(entry, _PROJECT_KEYS, where)
    if not _REPOSITORY.fullmatch(fields["repo"]):
        raise CodewalkError(f"{FILE}: {where}: {fields['repo']!r} is no owner/name")
    _check_commit(fields["commit"], where)
    return Pinned(label, **fields)


def _place(entry: Any, where: str, projects: Mapping[str, Pinned]) -> Place:
    fields = _fields(entry, _PLACE_KEYS, where)
    where = f"{fields['id']}"
    label = fields.pop("label")
    if label not in projects:
        raise CodewalkError(
            f"{FILE}: {where}: no project {label!r}; {nearest(label, projects)}"
        )
    fields["project"] = projects[label]
    fields["commit"] = fields["commit"] or projects[label].commit
    _check_commit(fields["commit"], where)
    start, end, line = (fields[f"{n}_line"] for n in ("start", "end", "symbol"))
    if not 1 <= start <= line <= end:
        raise CodewalkError(
            f"{FILE}: {where}: symbol_line {line} is not within {start} to {end}"
        )
    if fields["role"] not in ROLES:
        raise CodewalkError(
            f"{FILE}: {where}: role {fields['role']!r} is none of {', '.join(ROLES)}"
        )
    return Place(**fields)


def _fields(entry: Any, keys: Mapping[str, type], where: str) -> dict[str, Any]:
    _expect(entry, dict, where)
    for key in entry:
        if key not in keys:
            raise CodewalkError(f"{FILE}: {where}: no {key!r}; {nearest(key, keys)}")
    for key, kind in keys.items():
        if key not in entry and key in _OPTIONAL and kind is str:
            entry = {**entry, key: ""}
        elif key not in entry:
            raise CodewalkError(f"{FILE}: {where}: says no {key!r}")
        _expect(entry[key], kind, f"{where}: {key}")
    return {key: entry[key] for key in keys}


def _check_commit(commit: str, where: str) -> None:
    if not COMMIT.fullmatch(commit):
        raise CodewalkError(f"{FILE}: {where}: {commit!r} is no full commit")


def _expect(value: Any, kind: type, where: str) -> Any:
    if type(value) is not kind:
        raise CodewalkError(
            f"{FILE}: {where}: expected {kind.__name__}, got {value!r:.80}"
        )
    return value


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def chosen(upstream: Upstream, names: Sequence[str]) -> list[Place]:
    """The places that these ids and labels name; without any: all."""
    if not names:
        return list(upstream.places.values())
    found: dict[str, Place] = {}
    for name in names:
        if name in upstream.projects:
            found |= {
                place.id: place
                for place in upstream.places.values()
                if place.project.label == name
            }
        elif name in upstream.places:
            found[name] = upstream.places[name]
        else:
            known = [*upstream.places, *upstream.projects]
            raise CodewalkError(f"{name}: no such place; {nearest(name, known)}")
    return list(found.values())
