"""What codewalk costs: a full build of both languages against plain Material's.

    python tests/site/measure_build.py [--rounds 5]

Plain Material builds the same pages with the plugin off: the chapters with
their references left as text and, for the pages that exist only with the
plugin, Markdown files that hold the same source files in a fence each (the
pages of the results are left out). With `--chapters` the source files are left
out of the plain build too, so that all of their pages count as codewalk's cost.

Nothing is kept from one build to the next, so each is a cold one. Builds take
turns, and the median of each kind counts: of processor time (of the build and
all that it starts), which other programs disturb least, and of the time that
went by. Status 1: in processor time the ratio is above `--limit`.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree, ignore_patterns
from statistics import median

ROOT = Path(__file__).parents[2]
CONFIGS = {"en": ROOT / "mkdocs.yml", "zh": ROOT / "docs" / "zh.yml"}
SOURCES = ("src", "tests")
LIMIT = 1.25


@dataclass(frozen=True)
class Cost:
    """Seconds of one build: of processors, and by the clock."""

    processor: float
    clock: float


def plain_config(language: str, folder: Path, sources: bool) -> Path:
    """A configuration of the same site with the plugin off."""
    pages = folder / language
    # Unexecuted, a notebook is a page all the same.
    copytree(ROOT / "docs" / language, pages, ignore=ignore_patterns(".*"))
    if sources:
        for top in SOURCES:
            for path in sorted((ROOT / top).rglob("*.py")):
                name = path.relative_to(ROOT).as_posix().removeprefix("src/")
                _write_source(pages / "source" / f"{name}.md", path)
        (pages / "source" / "index.md").write_text("# Source\n", encoding="utf-8")
    config = folder / f"{language}.yml"
    config.write_text(
        f"INHERIT: {CONFIGS[language]}\n"
        f"docs_dir: {pages}\n"
        f"theme: {{custom_dir: {ROOT / 'docs' / 'theme'}}}\n"
        "plugins: {codewalk: {enabled: false}}\n"
        "validation: {links: {unrecognized_links: ignore, not_found: ignore}}\n",
        encoding="utf-8",
    )
    return config


def _write_source(page: Path, path: Path) -> None:
    page.parent.mkdir(parents=True, exist_ok=True)
    text = path.read_text(encoding="utf-8")
    head = "---\nsearch: {exclude: true}\nhide: [toc]\n---\n"
    title = path.relative_to(ROOT).as_posix()
    page.write_text(
        f'{head}# {title}\n\n`````` {{ .python linenums="1" }}\n{text}``````\n',
        encoding="utf-8",
    )


def build(configs: list[Path], site: Path) -> Cost:
    """What it costs to build these one after the other."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    for number, config in enumerate(configs):
        folder = str(site / str(number))
        command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--clean"]
        subprocess.run(
            [*command, "--config-file", str(config), "--site-dir", folder],
            env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
            stderr=subprocess.DEVNULL,
            check=True,
        )
    clock = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return Cost(user + system, clock)


def ratio(what: str, ours: list[float], theirs: list[float]) -> float:
    """The ratio of the medians, which it prints with each and its range."""
    parts = [
        f"{name} {median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"
        for name, seconds in (("codewalk", ours), ("plain", theirs))
    ]
    found = median(ours) / median(theirs)
    print(f"{what}: {', '.join(parts)}, ratio {found:.2f}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chapters", action="store_true")
    parser.add_argument("--limit", type=float, default=LIMIT)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain = [plain_config(one, folder, not options.chapters) for one in CONFIGS]
        contenders = {"codewalk": list(CONFIGS.values()), "plain": plain}
        costs: dict[str, list[Cost]] = {contender: [] for contender in contenders}
        for number in range(options.rounds):
            # Who begins changes, so that what came before favours neither.
            for contender in sorted(contenders, reverse=bool(number % 2)):
                costs[contender].append(build(contenders[contender], folder / "site"))
    ours, theirs = costs["codewalk"], costs["plain"]
    by_processor = ratio(
        "processor time", [c.processor for c in ours], [c.processor for c in theirs]
    )
    ratio("by the clock", [c.clock for c in ours], [c.clock for c in theirs])
    sys.exit(by_processor > options.limit)


if __name__ == "__main__":
    main()
