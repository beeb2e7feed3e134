"""The rows that a job writes."""

import io
import json
import math

import pytest

from bench.rows import Rows


def written(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_rows_are_one_object_a_line():
    stream = io.StringIO()
    rows = Rows(stream)
    rows.measured({"impl": "a", "causal": True}, {"ms": 0.5, "rounds": 6})
    rows.unmeasured({"impl": "b", "causal": True}, "unsupported", "no wheel")
    assert written(stream) == [
        {"case": {"impl": "a", "causal": True}, "values": {"ms": 0.5, "rounds": 6}},
        {
            "case": {"impl": "b", "causal": True},
            "status": "unsupported",
            "reason": "no wheel",
        },
    ]


def test_rows_go_to_the_named_file_at_once_and_after_what_is_there(
    tmp_path, monkeypatch
):
    path = tmp_path / "rows"
    path.write_text('{"case": {"n": 0}, "values": {}}\n')
    monkeypatch.setenv("CODEWALK_ROWS", str(path))
    with Rows.open() as rows:
        rows.measured({"n": 1}, {"ms": 1.0})
        assert len(path.read_text().splitlines()) == 2


def test_without_a_file_rows_are_printed(monkeypatch, capsys):
    monkeypatch.delenv("CODEWALK_ROWS", raising=False)
    with Rows.open() as rows:
        rows.measured({"n": 1}, {"ms": 1.0})
    assert json.loads(capsys.readouterr().out)["case"] == {"n": 1}


def test_a_case_is_written_once_whatever_the_order_of_its_columns():
    rows = Rows(io.StringIO())
    rows.measured({"a": 1, "b": 2}, {})
    with pytest.raises(ValueError, match="second row"):
        rows.unmeasured({"b": 2, "a": 1}, "failed", "late")


@pytest.mark.parametrize("bad", [math.nan, math.inf, None, [1], {"a": 1}])
def test_values_are_plain_and_finite(bad):
    stream = io.StringIO()
    with pytest.raises(ValueError, match="ms"):
        Rows(stream).measured({"n": 1}, {"ms": bad})
    assert stream.getvalue() == ""


def test_a_status_is_one_that_readers_know():
    with pytest.raises(ValueError, match="status"):
        Rows(io.StringIO()).unmeasured({"n": 1}, "slow", "it took long")
