"""The card of a value: its facts are in the page, in words."""

import json

import pytest
from html_contract import Element, read
from test_walk import only

from codewalk.config import Project
from codewalk.markdown import CodewalkExtension

markdown = pytest.importorskip("markdown")
OURS = "[](result:speed?impl=ours&n=1024#tflops)"


@pytest.fixture
def value(project: Project):
    def convert(text: str, language: str = "en") -> Element:
        extension = CodewalkExtension(root=str(project.root), language=language)
        page = read(markdown.markdown(text, extensions=["attr_list", extension]))
        return only(page.with_class("cw-value"))

    return convert


def facts(value: Element) -> dict[str, object]:
    return json.loads(value["data-card"])


def test_a_value_says_where_it_comes_from(value) -> None:
    assert facts(value(OURS)) == {
        "value": "412\u00a0TFLOP/s",
        "spread": "407 to 417",
        "run": "GPU One · 2026-11-30",
        "conditions": "demo · length 1024 · full",
        "command": "python -m demo.speed",
        "state": "current",
        "fresh": True,
    }


def test_in_chinese(value) -> None:
    found = facts(value(OURS, "zh"))
    assert found["conditions"] == "demo · 长度 1024 · 非因果"
    assert (found["spread"], found["state"]) == ("407 到 417", "最新")


def test_repeats_are_told_where_the_column_names_them(
    project: Project, value, edit
) -> None:
    edit("docs/jobs.toml", 'high = "tflops_high"', 'high = "t"\nrepeats = "rounds"')
    path = project.root / "docs/results/gpu-one/speed.json"
    record = json.loads(path.read_text())
    record["rows"][0]["values"]["rounds"] = 6
    path.write_text(json.dumps(record))
    assert facts(value(OURS))["spread"] == "median of 6"


def test_an_old_value_says_since_when(value, edit) -> None:
    edit("src/demo/kernel.py", "2 * x", "3 * x")
    found = facts(value(OURS))
    assert found["fresh"] is False
    assert "src/demo/kernel.py changed" in str(found["state"])


def test_what_could_not_be_measured_says_why(value) -> None:
    found = facts(value("[](result:speed?impl=peer&n=2048#tflops)"))
    assert found["value"] == "out of memory"
    assert found["state"] == "big; current"
    assert found["spread"] == ""


def test_the_commit_is_told_where_the_run_knew_it(project: Project, value) -> None:
    path = project.root / "docs/results/gpu-one/speed.json"
    record = json.loads(path.read_text())
    record["software"]["commit"] = "0123456789abcdef"
    path.write_text(json.dumps(record))
    assert facts(value(OURS))["run"] == "GPU One · 2026-11-30 · commit 0123456789ab"


def test_the_text_of_the_page_stays_the_value_alone(value) -> None:
    assert value(OURS).text == "412\u00a0TFLOP/s"
