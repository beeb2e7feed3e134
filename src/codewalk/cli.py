"""The command line: what is fresh, run what is not, check everything.

It needs the standard library alone, since a machine with a GPU may reach no
package registry. Exit status: 0 fine, 1 something is to be mended, 2 it could
not be done as asked, 130 interrupted.
"""

import argparse
import datetime
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from codewalk.accept import accept, listing, unread
from codewalk.check import problems
from codewalk.config import Job, Project, find_root, read_project
from codewalk.errors import CodewalkError, report
from codewalk.jobs.machine import Machine, probe
from codewalk.jobs.process import stop_on_signals
from codewalk.jobs.progress import Progress
from codewalk.jobs.run import Session, lock, run_job
from codewalk.jobs.status import Due, due, lines, states
from codewalk.records import Record, Row
from codewalk.references import Library
from codewalk.upstream import command as upstream

FINE, PROBLEMS, ERROR, INTERRUPTED = 0, 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Does what the arguments ask, by default the process's, and returns the status."""
    options = _parser().parse_args(arguments)
    try:
        project = read_project(find_root(Path.cwd()))
        if options.verb == "status":
            return _status(project, options.jobs)
        if options.verb == "run":
            return _run(project, options.jobs, options.dry_run, options.results)
        if options.verb == "accept":
            return _accept(project, options.sections)
        if options.verb == "upstream":
            return FINE if upstream.run(project, options) else PROBLEMS
        return _check(project)
    except (CodewalkError, OSError) as error:
        print(f"codewalk: {error}", file=sys.stderr)
        return ERROR
    except KeyboardInterrupt:
        print("codewalk: interrupted; the records are whole", file=sys.stderr)
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="codewalk", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    status = verbs.add_parser("status", help="which results are fresh, and why not")
    status.add_argument(
        "jobs", nargs="*", metavar="JOB", help="these alone; without any: all"
    )

    run = verbs.add_parser("run", help="run jobs and store their records")
    run.add_argument(
        "jobs",
        nargs="*",
        metavar="JOB",
        help="run these, fresh or not; without any: all that have no fresh record "
        "of this machine and can run here",
    )
    run.add_argument("--dry-run", action="store_true", help="only say what would run")
    run.add_argument(
        "--results",
        type=Path,
        metavar="DIR",
        help="store records as DIR/DEVICE/JOB.json",
    )

    verbs.add_parser("check", help="everything that is to be mended or read again")

    accept = verbs.add_parser(
        "accept", help="show sections with their code, and record that they were read"
    )
    accept.add_argument(
        "sections",
        nargs="+",
        metavar="PAGE#SECTION",
        help="as `codewalk check` names them: en/forward/main-loop#mask",
    )
    upstream.add_parser(verbs)
    return parser


def _status(project: Project, names: Sequence[str]) -> int:
    found = states(project)
    for name in names:
        if all(state.job != name for state in found):
            project.jobs.job(name)  # raises, and names the nearest
    for line in lines([s for s in found if not names or s.job in names]):
        print(line)
    return FINE


def _check(project: Project) -> int:
    found = problems(project)
    if found:
        print(report(found))
    # A page or a file of reviews that cannot be read is one of the problems.
    old = None
    with suppress(CodewalkError):
        old = unread(Library(project))
    if old:
        print(*listing(old), sep="\n")
    if found or old:
        return PROBLEMS
    print("nothing to mend")
    return FINE


def _accept(project: Project, names: Sequence[str]) -> int:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    for line in accept(Library(project), names, today):
        print(line)
    return FINE


def _run(
    project: Project, names: Sequence[str], dry_run: bool, results: Path | None
) -> int:
    jobs = [project.jobs.job(name) for name in dict.fromkeys(names)]
    with stop_on_signals() as stop, closing(Progress(sys.stderr)) as progress:
        progress.started("probe")
        machine = probe(project, progress, stop)
        progress.close()
        plan = _named(jobs, machine) if jobs else due(project, machine)
        if dry_run or not plan:
            _say_plan(plan)
            return FINE
        folder = (results or project.root / project.results).resolve()
        with lock(folder):
            session = Session(project, folder, machine, stop)
            outcomes = _run_all(session, plan, progress)
    return FINE if all(isinstance(found, Record) for found in outcomes) else PROBLEMS


def _named(jobs: Sequence[Job], machine: Machine) -> list[Due]:
    for job in jobs:
        if not machine.provides_for(job):
            here = ", ".join(sorted(machine.provides))
            raise CodewalkError(
                f"{job.name} needs {job.needs}; this machine has {here}"
            )
    return [Due(job, machine.device_for(job), "named") for job in jobs]


def _say_plan(plan: Sequence[Due]) -> None:
    if not plan:
        print("nothing to run: all that can run here is fresh")
    for one in plan:
        print(f"would run {one.job.name} on {one.device} ({one.why})")


def _run_all(
    session: Session, plan: Sequence[Due], progress: Progress
) -> list[Record | str]:
    """Runs one after the other and tells how each came out, also when stopped."""
    outcomes: list[Record | str] = []
    try:
        for one in plan:
            session.stop.check()
            progress.started(one.job.name)
            outcomes.append(_attempt(session, one.job, progress))
            progress.ended(_outcome(outcomes[-1]))
        session.stop.check()
    finally:
        progress.close()
        _print_table(plan, outcomes)
    return outcomes


def _attempt(session: Session, job: Job, progress: Progress) -> Record | str:
    """The record, or why there is none; one bad job keeps no other from running."""
    try:
        return run_job(session, job, progress)
    except (CodewalkError, OSError) as error:
        return str(error)


def _print_table(plan: Sequence[Due], outcomes: Sequence[Record | str]) -> None:
    job = max(len(one.job.name) for one in plan)
    device = max(len(one.device) for one in plan)
    for place, one in enumerate(plan):
        text = _outcome(outcomes[place]) if place < len(outcomes) else "stopped"
        print(f"{one.job.name:{job}}  {one.device:{device}}  {text}")


def _outcome(found: Record | str) -> str:
    if isinstance(found, str):
        return f"NO RECORD: {found}"
    return f"recorded {_counts(found.rows)} in {found.seconds:.1f} s"


def _counts(rows: Sequence[Row]) -> str:
    """How many rows, and how many of each status but the good one."""
    bad = [row.status for row in rows if row.status != "measured"]
    parts = [f"{bad.count(status)} {status}" for status in dict.fromkeys(bad)]
    text = f"{len(rows)} row{'' if len(rows) == 1 else 's'}"
    return f"{text} ({', '.join(parts)})" if parts else text
