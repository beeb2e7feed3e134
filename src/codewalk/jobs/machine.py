"""The machine that jobs would run on, as the project's probe describes it."""

import json
import os
import platform
import re
import site
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import codewalk
from codewalk.config import Job, Project
from codewalk.errors import CodewalkError
from codewalk.jobs.process import Program, Stop, Watch, run
from codewalk.record_format import Scalar, scalars, strings

# A first import of torch from a cold disk takes most of a minute.
_PROBE_SECONDS = 180.0


@dataclass(frozen=True)
class Machine:
    """A device, its facts, and what a job may count on here."""

    device: str
    facts: Mapping[str, Scalar]
    software: Mapping[str, str]
    provides: frozenset[str]

    def provides_for(self, job: Job) -> bool:
        return job.needs in self.provides

    def device_for(self, job: Job) -> str:
        """A job that needs no GPU is of the processor, wherever it runs."""
        return "cpu" if job.needs == "cpu" else self.device

    def facts_for(self, job: Job) -> Mapping[str, Scalar]:
        """What is known of the device that this job measures."""
        if self.device_for(job) == self.device:
            return self.facts
        return {"name": _processor()}


def probe(project: Project, watch: Watch, stop: Stop) -> Machine:
    """Asks the project's probe; without one, this is a plain CPU.

    Raises a CodewalkError if it fails or answers in another form.
    """
    command = project.jobs.probe
    if not command:
        facts = {"name": _processor()}
        return Machine("cpu", facts, _software({}), frozenset({"cpu"}))
    with tempfile.TemporaryFile() as file:
        words = [sys.executable, *command[1:]] if command[0] == "python" else command
        environment = job_environment(project)
        program = Program(words, project.root, environment, _PROBE_SECONDS, file)
        try:
            status = run(program, watch, stop)
        except CodewalkError as error:
            raise CodewalkError(f"the probe: {error}") from None
        file.seek(0)
        answer = file.read()
    if status:
        raise CodewalkError(f"the probe {_shown(command)} ended with status {status}")
    try:
        return _machine(json.loads(answer))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CodewalkError(
            f"the probe {_shown(command)} answered in another form than "
            '{"device": {"id": …}, "software": {…}, "provides": […]}: '
            f"{type(error).__name__}: {error}"
        ) from None


def job_environment(project: Project) -> dict[str, str]:
    """The environment with the project's sources on Python's path, first."""
    sources = project.sources.get("", "src")
    paths = [str(project.root / sources), os.environ.get("PYTHONPATH", "")]
    # Last, and only where it is not installed: the tracer must be found.
    home = str(Path(codewalk.__file__).parents[1])
    if home not in (*site.getsitepackages(), sysconfig.get_path("purelib")):
        paths.append(home)
    path = os.pathsep.join(dict.fromkeys(filter(None, paths)))
    return {**os.environ, "PYTHONPATH": path}


def _machine(answer: Any) -> Machine:
    facts = scalars(answer["device"], "device")
    device = facts.pop("id")
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", str(device)):
        raise ValueError(f"device.id {device!r} is no slug")
    provides = answer["provides"]
    if not isinstance(provides, list):
        raise TypeError("provides is no list")
    software = _software(strings(answer["software"], "software"))
    return Machine(str(device), facts, software, frozenset(map(str, provides)))


def _software(known: Mapping[str, str]) -> dict[str, str]:
    return {"python": platform.python_version(), **known}


def _processor() -> str:
    """The processor's name. Never the host's."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = ""
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return model[1].strip() if model else platform.processor() or platform.machine()


def _shown(command: Sequence[str]) -> str:
    return "`" + " ".join(command) + "`"
