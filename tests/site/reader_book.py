"""A small book with the theme of this one: what the reader's tests walk through."""

from pathlib import Path

from codewalk.config import read_project
from codewalk.digest import digest_file
from codewalk.records import Record, Row, write_record

ROOT = Path(__file__).parents[2]

_HELPER = "".join(f"    # Line {n}.\n    x = x + {n}\n" for n in range(12))
KERNEL = (
    '"""A kernel."""\n\n\ndef kernel(x):\n'
    "    # [first] The first step.\n    x = x + 1\n\n"
    "    # [middle] The second step.\n    x = x * 2\n    x = x * 3\n\n"
    "    # [last] The last step.\n    return x\n\n\n"
    f"def helper(x):\n{_HELPER}    return x\n"
)
# The same kernel before some change: two things are other lines, one was longer.
BEFORE = (
    KERNEL.replace("x = x + 1", f"x = x + 2  # {'which was long, ' * 4}", 1)
    .replace("    x = x * 3\n", "".join(f"    x = x * {n}\n" for n in range(4, 12)))
    .replace("# [last] The last", "# [last] A last")
)
_PARAGRAPH = "Words, to make the text of this section as long as a window is high. " * 6
_LONG = f"{_PARAGRAPH}\n\n" * 8
WALK = f"""\
# The walk {{ #the-walk }}

A question, and [a helper](src:demo/walked.py#helper) far away.

## First {{ #first }}

See [the second line](src:demo/walked.py#first),
and [the middle](src:demo/walked.py#middle).

![](src:demo/walked.py#first)

{_LONG}
## Middle {{ #middle }}

Once more [the middle step](src:demo/walked.py#middle).

![](src:demo/walked.py#middle)

![](src:demo/walked.py#last)

The end of it.
"""
JOBS = """\
[jobs.speed]
kind = "benchmark"
needs = "cuda"
command = ["python", "-m", "demo.speed", "--all"]
[columns.tflops]
unit = "TFLOP/s"
low = "low"
high = "high"
repeats = "rounds"
"""
READING = f"""\
# Reading {{ #reading }}

A value of [](result:speed?n=1024#tflops), [the helper](src:demo/walked.py#helper),
[the other](src:demo/other.py#other), [the last step](src:demo/walked.py#last).

{_LONG}
At the end, [the helper once more](src:demo/walked.py#helper).

![](src:demo/walked.py#middle)

And [the middle](src:demo/walked.py#middle).
"""
DIFF = f"""\
# What changed {{ #what-changed }}

See [the first line](src:demo/walked.py#first),
or [the helper](src:demo/walked.py#helper).

![](diff:demo/before.py..demo/walked.py)

before → walked: [](result:speed?n=1024#tflops) → [](result:speed?n=1024#tflops) on H200
{{ .cw-consequence }}

{_LONG}
"""


SETTINGS = """\
site_name: Book
plugins:
  search: {}
  codewalk: {}
markdown_extensions: [attr_list, toc]
validation: {links: {anchors: info}}
"""


def make_book(root: Path) -> Path:
    """Writes the project and builds it with MkDocs; the folder of the site."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    files = {
        "pyproject.toml": '[tool.codewalk]\ndevice = "gpu-one"\n',
        "mkdocs.yml": SETTINGS,
        "src/demo/walked.py": KERNEL,
        "src/demo/before.py": BEFORE,
        "src/demo/other.py": "def other():\n    return 1\n",
        "tests/test_demo.py": "",
        "docs/jobs.toml": JOBS,
        "docs/en/index.md": "# Home\n\n[On](reading.md)\n",
        "docs/en/walk.md": f"---\nlayout: walk\n---\n{WALK}",
        "docs/en/reading.md": READING,
        "docs/en/diff.md": DIFF,
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    _write_record(root)
    pages = root / "docs/en"
    theme = ROOT / "docs/theme"
    config = load_config(
        str(root / "mkdocs.yml"),
        docs_dir=str(pages),
        site_dir=str(root / "site"),
        theme={
            "name": "material",
            "custom_dir": str(theme),
            "font": False,
            "features": ["navigation.instant", "toc.integrate"],
            "palette": [{"scheme": "default"}],
        },
        extra_css=_styles(),
        extra_javascript=[
            {"path": f"assets/{name}.js", "defer": True}
            for name in ("codewalk", "walk", "cards")
        ],
    )
    config.plugins.on_startup(command="build", dirty=False)
    build(config)
    return Path(config.site_dir)


def _write_record(root: Path) -> None:
    project = read_project(root)
    values = {"tflops": 412.3, "low": 407.0, "high": 417.0, "rounds": 6}
    record = Record(
        job="speed",
        device="gpu-one",
        machine={"name": "GPU One"},
        software={},
        command=("python", "-m", "demo.speed", "--all"),
        started="2026-11-30T10:00:00Z",
        seconds=1.0,
        inputs={"src/demo/walked.py": digest_file(root / "src/demo/walked.py")},
        job_digest=project.jobs.job("speed").digest,
        rows=(Row(0, {"n": 1024}, values, "measured"),),
    )
    write_record(project, record)


def _styles() -> list[str]:
    names = [
        "tokens",
        "type",
        "layout",
        "code",
        "diff",
        "results",
        "source",
        "walk",
        "cards",
    ]
    return [f"assets/css/{name}.css" for name in [*names, "print"]]
