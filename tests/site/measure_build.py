"""What codewalk costs: a full build of both languages against plain Material's.

    python tests/site/measure_build.py [--rounds 3]

Plain Material builds the same pages with the plugin off: the chapters with
their references left as text and, for the pages that exist only with the
plugin, Markdown files that hold the same source files in a fence each. With
`--chapters` the source files are left out of the plain build, so that all of
their pages count as codewalk's cost. Builds take turns; the fastest of each
kind counts, in seconds of processor time, which other programs disturb least.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import copytree, ignore_patterns

ROOT = Path(__file__).parents[2]
CONFIGS = {"en": ROOT / "mkdocs.yml", "zh": ROOT / "docs" / "zh.yml"}
SOURCES = ("src", "tests")


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


def seconds(configs: list[Path], site: Path) -> float:
    """The processor time of building these one after the other."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for number, config in enumerate(configs):
        folder = str(site / str(number))
        command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--clean"]
        subprocess.run(
            [*command, "--config-file", str(config), "--site-dir", folder],
            env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
            stderr=subprocess.DEVNULL,
            check=True,
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--chapters", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain = [plain_config(one, folder, not options.chapters) for one in CONFIGS]
        full = list(CONFIGS.values())
        times: dict[str, list[float]] = {"codewalk": [], "plain": []}
        for _ in range(options.rounds):
            times["codewalk"].append(seconds(full, folder / "site"))
            times["plain"].append(seconds(plain, folder / "site"))
    ours, theirs = min(times["codewalk"]), min(times["plain"])
    print(f"codewalk {ours:.2f} s, plain {theirs:.2f} s, ratio {ours / theirs:.2f}")


if __name__ == "__main__":
    main()
