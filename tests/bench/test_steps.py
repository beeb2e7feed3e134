"""Taking the steps of the kernel away, without running what is left."""

import ast

import pytest

from bench import steps
from codewalk.source import SourceFile


def test_every_step_can_be_taken_away():
    file = steps.kernel()
    cases = steps.without_each_step(file)
    names = [r.name for r in file.regions if r.kind == "step"]
    assert [case.step for case in cases] == names
    assert set(steps.NEUTRAL) <= set(names)
    for case in cases:
        ast.parse(case.text)
        assert f"# [{case.step}]" not in case.text
        assert case.way == ("neutralised" if case.step in steps.NEUTRAL else "cut")


def kernel(text: str) -> SourceFile:
    return SourceFile("src/x.py", f"def {steps.FUNCTION}(x):\n{text}".encode())


def test_a_step_that_others_need_cannot_be_cut():
    text = "    # [make] M.\n    y = x\n\n    # [use] U.\n    return y\n"
    with pytest.raises(ValueError, match=r"\[make\] cannot be cut: .* needs y;"):
        steps.without_each_step(kernel(text))


def test_a_step_whose_names_have_a_value_before_can_be_cut():
    text = "    y = 0\n    # [change] C.\n    y = y + x\n    # [use] U.\n    z = y\n"
    first, _ = steps.without_each_step(kernel(text))
    assert first.way == "cut"
    assert "y + x" not in first.text
    assert "z = y" in first.text


def test_the_most_telling_test_fails_for_the_fewest_steps():
    times = {"f.py::test_all[a]": 9, "f.py::test_this[b]": 2, "f.py::test_that": 2}
    assert steps.telling(times, times) == "f.py::test_this"
    assert steps.telling([], times) == ""


def test_the_copy_has_all_that_attention_imports():
    package = steps.ROOT / "src" / "flashwalk"
    for file in steps.SOURCES:
        for node in ast.parse((package / file).read_text()).body:
            if isinstance(node, ast.ImportFrom) and node.module == "flashwalk":
                wanted = [name.name for name in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                wanted = [node.module.removeprefix("flashwalk.")]
            else:
                continue
            modules = [n for n in wanted if (package / f"{n}.py").is_file()]
            assert {f"{name}.py" for name in modules} <= set(steps.SOURCES), file
