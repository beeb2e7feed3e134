"""The standing: records made up, ratios by hand."""

import json

import pytest

from bench import ceilings, standing
from bench.measure import Machine
from bench.rows import Rows


def record(path, cells):
    """cells: (seqlen_q, implementation, (low, median, high)) in TFLOP/s."""
    rows = [
        {
            "case": {"impl": impl, "seqlen_q": seqlen_q},
            "values": dict(
                zip(("tflops_low", "tflops", "tflops_high"), speeds, strict=True)
            ),
        }
        for seqlen_q, impl, speeds in cells
    ]
    rows.append({"case": {"impl": "fa3", "seqlen_q": 7}, "status": "unsupported"})
    path.write_text(json.dumps({"rows": rows}))
    return path


def test_the_best_rival_of_each_cell(tmp_path):
    path = record(
        tmp_path / "forward.json",
        [
            (1024, "flashwalk", (90, 100, 110)),
            (1024, "fa3", (100, 125, 150)),
            (1024, "fa2", (50, 50, 50)),
            (1024, "naive", (900, 900, 900)),  # not one of those we are held against
            (4096, "flashwalk", (200, 200, 200)),
            (4096, "cudnn", (100, 100, 100)),
            (8192, "flashwalk", (1, 1, 1)),  # nobody else was measured
        ],
    )
    short, long = standing.cells_of(path, tuned=True)
    assert (short.case, short.rival, short.ratio) == ({"seqlen_q": 1024}, "fa3", 0.8)
    assert short.spread == pytest.approx(110 / 100 - 90 / 150)
    assert (long.rival, long.ratio, long.spread) == ("cudnn", 2.0, 0.0)
    # The geometric mean of 0.8 and 2.
    assert standing.summary([short, long]) == {
        "count": 2,
        "against_best": pytest.approx(1.6**0.5, rel=1e-3),
        "worst": 0.8,
        "ahead": 1,
    }


@pytest.mark.parametrize("mode", ["forward", "backward"])
def test_the_standing_of_a_mode_is_from_its_own_records(tmp_path, monkeypatch, mode):
    monkeypatch.setenv("CODEWALK_ROWS", str(tmp_path / "rows"))
    speeds = {"forward": 50, "backward": 200}
    for of, ours in speeds.items():
        for i, name in enumerate(("d64", "d128", "d256", "other")):
            cells = [(i, "flashwalk", [ours] * 3), (i, "cudnn", [100] * 3)]
            record(tmp_path / f"{of}-{name}.json", cells)
    monkeypatch.setattr(standing, "RESULTS", tmp_path)
    option = ["--backward"] if mode == "backward" else []
    monkeypatch.setattr("sys.argv", ["standing", *option])
    standing.main()
    lines = (tmp_path / "rows").read_text().splitlines()
    *cells, everything, tuned = map(json.loads, lines)
    assert [row["case"]["tuned"] for row in cells] == [True, True, True, False]
    ratio = speeds[mode] / 100
    assert {row["values"]["against_best"] for row in cells} == {ratio}
    assert everything["case"] == {"scope": "all"}
    assert everything["values"]["count"] == 4
    assert (tuned["values"]["count"], tuned["values"]["against_best"]) == (3, ratio)


def test_speed_without_overlap():
    # 256 operations a score: as long in products as its one exponential takes.
    assert ceilings.no_overlap(64, flops=256e12, exponentials=1e12) == 128e12


def test_ceilings_are_written_from_the_times(monkeypatch, capsys):
    monkeypatch.delenv("CODEWALK_ROWS", raising=False)
    machine = Machine(lambda run: 2.0, lambda run: 0.0, lambda: None)
    with Rows.open() as rows:
        ceilings.run(rows, machine, side=8, size=4000, device="cpu")
    written = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["case"]["ceiling"] for row in written] == [
        *("product", "copy", "exponentials"),
        *["no overlap"] * 3,
    ]
    # 2 * 8**3 operations, 8000 bytes there and back, in 2 ms.
    assert written[0]["values"]["tflops"] == pytest.approx(1024 / 2e-3 / 1e12)
    assert written[1]["values"]["tbs"] == pytest.approx(8000 / 2e-3 / 1e12)
