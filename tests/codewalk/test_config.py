"""Settings and jobs.toml are read, and each mistake is named."""

from pathlib import Path

import pytest
from tiny_project import job, make, write

from codewalk.config import find_root, read_jobs, read_project
from codewalk.errors import CodewalkError

GOOD = """
probe = ["python", "-m", "bench.probe"]

[jobs.forward]
kind = "benchmark"
needs = "sm_90"
command = ["python", "-m", "bench.forward"]
title = { en = "Forward", zh = "前向" }

[columns.ms]
unit = "ms"
digits = 3
better = "lower"
label = { en = "time" }
low = "ms_low"
high = "ms_high"

[columns.causal.values]
true = { en = "causal" }

[series.impl]
fa2 = { label = "FA2", style = "peer-1" }
"""


def test_jobs_toml_is_read(tmp_path: Path) -> None:
    jobs = read_jobs(write(tmp_path, "jobs.toml", GOOD))
    assert jobs.probe == ("python", "-m", "bench.probe")
    forward = jobs.job("forward")
    assert (forward.kind, forward.needs) == ("benchmark", "sm_90")
    assert forward.command == ("python", "-m", "bench.forward")
    assert jobs.column("ms").title("en") == "time"
    assert jobs.column("ms").title("zh") == "ms"
    assert jobs.column("causal").values["true"]["en"] == "causal"
    assert jobs.column("unheard-of").unit == ""
    assert jobs.series["impl"]["fa2"].style == "peer-1"


def test_a_job_needs_a_cpu_unless_it_says_more(tmp_path: Path) -> None:
    text = '[jobs.a]\nkind = "claims"\ncommand = ["python", "a.py"]\n'
    assert read_jobs(write(tmp_path, "jobs.toml", text)).job("a").needs == "cpu"


def test_no_file_is_no_jobs(tmp_path: Path) -> None:
    assert read_jobs(tmp_path / "jobs.toml").jobs == {}


def test_an_unknown_job_names_the_nearest(tmp_path: Path) -> None:
    jobs = read_jobs(write(tmp_path, "jobs.toml", GOOD))
    with pytest.raises(CodewalkError, match="'forwad': nearest: forward"):
        jobs.job("forwad")


BAD = {
    "no TOML": ("[jobs.forward]", "[jobs.forward", "jobs.toml: Expected ']'"),
    "an unknown part": ("[jobs.forward]", "[job.forward]", "'job': nearest: jobs"),
    "an unknown setting": ("needs =", "need =", "jobs.forward: no setting 'need'"),
    "an unknown kind": ('"benchmark"', '"bench"', "kind: expected one of tests, "),
    "no kind": ('kind = "benchmark"\n', "", "kind: expected one of"),
    "a need that is no word": ('"sm_90"', "90", "needs: expected str, got 90"),
    "a command that is one text": (
        '["python", "-m", "bench.forward"]',
        '"python"',
        "command: expected list",
    ),
    "an empty command": (
        '["python", "-m", "bench.forward"]',
        "[]",
        "command: expected at least one word",
    ),
    "no command": (
        'command = ["python", "-m", "bench.forward"]\n',
        "",
        "command: expected list, got None",
    ),
    "a word that is a number": ('"bench.forward"]', "1]", "command: expected str"),
    "an unknown language": ('zh = "前向"', 'de = "vor"', "title: no setting 'de'"),
    "no digits": ("digits = 3", "digits = 0", "digits: expected a whole number"),
    "true digits": ("digits = 3", "digits = true", "digits: expected a whole number"),
    "an unknown better": ('"lower"', '"less"', "expected one of , higher, lower"),
    "an unknown style": ('"peer-1"', '"red"', "fa2.style: expected one of ours"),
    "a job that is no table": ("[jobs.forward]", "[jobs]", "jobs.kind: expected dict"),
}


@pytest.mark.parametrize(("old", "new", "message"), BAD.values(), ids=BAD)
def test_a_mistake_is_named(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in GOOD
    path = write(tmp_path, "jobs.toml", GOOD.replace(old, new))
    with pytest.raises(CodewalkError, match=message):
        read_jobs(path)


def test_a_job_is_another_when_it_runs_something_else(tmp_path: Path) -> None:
    def digest(old: str, new: str) -> str:
        path = write(tmp_path, "jobs.toml", GOOD.replace(old, new))
        return read_jobs(path).job("forward").digest

    same = digest("", "")
    assert digest('"Forward"', '"The forward"') == same
    assert digest('"bench.forward"]', '"bench.forward", "-v"]') != same
    assert digest('needs = "sm_90"', 'needs = "cuda"') != same
    assert digest('"benchmark"', '"claims"') != same


def test_the_root_is_found_from_below(tmp_path: Path) -> None:
    make(tmp_path, [job("a", "python", "a.py")], {"docs/en/index.md": ""})
    # A settings file of something else in between is passed by.
    write(tmp_path, "docs/pyproject.toml", "[tool.other]\n")
    assert find_root(tmp_path / "docs" / "en") == tmp_path


def test_no_project_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        CodewalkError, match=r"no pyproject.toml with \[tool.codewalk\]"
    ):
        find_root(tmp_path)


def test_an_unknown_setting_names_the_nearest(tmp_path: Path) -> None:
    write(tmp_path, "pyproject.toml", '[tool.codewalk]\ndevise = "x"\n')
    with pytest.raises(CodewalkError, match="'devise': nearest: device"):
        read_project(tmp_path)


def test_settings_have_defaults(tmp_path: Path) -> None:
    project = make(tmp_path, [], {})
    assert project.results == "docs/results"
    assert project.relative(tmp_path / "src" / "a.py") == "src/a.py"
