"""What the records say of a test: passed, failed or not run, and on what."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from codewalk.errors import CodewalkError, nearest
from codewalk.records import MEASURED, Change, Record, Row
from codewalk.regions import Region
from codewalk.source import SourceFile, SourceTree, Span

PASSED, FAILED, NOT_RUN = "passed", "failed", "not-run"

_Changes = Callable[[Record], Sequence[Change]]


@dataclass(frozen=True)
class Outcome:
    """A test, where its source stands, and how it came out.

    records: those that say so; for a test that was not run there are none.
    stale: the records that are old, each with what has changed since.
    """

    node: str
    span: Span
    outcome: str
    records: tuple[Record, ...] = ()
    stale: tuple[tuple[Record, Sequence[Change]], ...] = ()

    @property
    def name(self) -> str:
        """The test's name, with its parameters if one case was asked for."""
        return self.node.partition("::")[2].replace("::", ".")

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(record.device for record in self.records))


class _Kind(Protocol):
    @property
    def kind(self) -> str: ...


def find_test(
    node: str,
    sources: SourceTree,
    records: Iterable[Record],
    jobs: Mapping[str, _Kind],
    changes: _Changes,
) -> Outcome:
    """The test with this node id; without parameters, all its cases together.

    It passed if at least one case ran and none failed on any device.
    """
    span, bracket = span_of_test(node, sources), "[" in node.partition("::")[2]
    of_tests = [r for r in records if r.job in jobs and jobs[r.job].kind == "tests"]
    cases = [(record, _cases(record, node, bracket)) for record in of_tests]
    if bracket:
        _check_case(node, cases, changes)
    failed = [record for record, rows in cases if any(map(_failed, rows))]
    passed = [record for record, rows in cases if any(map(_passed, rows))]
    found = failed or passed
    outcome = FAILED if failed else PASSED if passed else NOT_RUN
    stale = [(record, changes(record)) for record in found]
    return Outcome(
        node, span, outcome, tuple(found), tuple((r, gone) for r, gone in stale if gone)
    )


def span_of_test(node: str, sources: SourceTree) -> Span:
    """The lines of the function that holds the test with this node id."""
    path, _, rest = node.partition("::")
    file = sources.file(path)
    return file.span(_test(node, file, rest.partition("[")[0]).qualname)


def _test(node: str, file: SourceFile, base: str) -> Region:
    """The function of a test in its source."""
    tests = {
        region.qualname.replace(".", "::"): region
        for region in file.regions
        if region.kind == "symbol" and region.name.startswith("test")
    }
    if base not in tests:
        raise CodewalkError(f"test:{node}: no such test; {nearest(base, tests)}")
    return tests[base]


def _cases(record: Record, node: str, exact: bool) -> list[Row]:
    """The rows of a test, or of one case of it."""
    found = []
    for row in record.rows:
        test = str(row.case.get("test", ""))
        if test == node or (not exact and test.partition("[")[0] == node):
            found.append(row)
    return found


def _check_case(
    node: str, cases: Sequence[tuple[Record, Sequence[Row]]], changes: _Changes
) -> None:
    """Refuses a case that a current run of its test does not know."""
    base = node.partition("[")[0]
    for record, rows in cases:
        known = [str(row.case["test"]) for row in _cases(record, base, False)]
        if known and not rows and not changes(record):
            raise CodewalkError(
                f"test:{node}: no such case in the run of {record.job} on "
                f"{record.device}; {nearest(node, known)}"
            )


def _passed(row: Row) -> bool:
    return row.status == MEASURED and row.values.get("outcome") == "passed"


def _failed(row: Row) -> bool:
    return row.status == "failed" or row.values.get("outcome") == "failed"
