"""The facts about a machine."""

import json
import platform
import subprocess
import sys
from types import SimpleNamespace

from bench import probe


def test_it_prints_one_object_and_never_the_host():
    command = [sys.executable, "-m", "bench.probe"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    facts = json.loads(done.stdout)
    assert set(facts) == {"device", "software", "provides"}
    assert facts["software"]["python"] == platform.python_version()
    assert "cpu" in facts["provides"]


def test_a_machine_without_torch_is_its_processor(monkeypatch):
    monkeypatch.setattr(probe, "_import", lambda name: None)
    facts = probe.probe()
    assert facts["device"]["id"] == "cpu"
    assert facts["provides"] == ["cpu"]
    assert "torch" not in facts["software"]


def test_a_gpu_is_named_by_a_slug(monkeypatch):
    properties = SimpleNamespace(
        name="NVIDIA H200", total_memory=143_771 * 2**20, multi_processor_count=132
    )
    cuda = SimpleNamespace(
        is_available=lambda: True,
        get_device_properties=lambda device: properties,
        get_device_capability=lambda: (9, 0),
    )
    torch = SimpleNamespace(
        cuda=cuda,
        zeros=lambda *args, **kwargs: None,
        __version__="2.11.0",
        version=SimpleNamespace(cuda="13.0"),
        backends=SimpleNamespace(cudnn=SimpleNamespace(version=lambda: 91900)),
    )
    monkeypatch.setattr(probe, "_import", lambda name: {"torch": torch}.get(name))
    monkeypatch.setattr(probe, "_output", lambda command: "580.1, 1980, 1980, 700.00")
    facts = probe.probe()
    assert facts["device"] == {
        "id": "nvidia-h200",
        "name": "NVIDIA H200",
        "memory_mib": 143_771,
        "sm_count": 132,
        "driver": "580.1",
        "clock_mhz": 1980,
        "clock_max_mhz": 1980,
        "power_limit_w": 700,
    }
    assert facts["provides"] == ["cpu", "cuda", "sm_90"]
    assert facts["software"]["cudnn"] == "91900"


def test_what_nvidia_smi_does_not_know_is_left_out():
    assert probe.read_smi("580.1, 345, [N/A], 700.5") == {
        "driver": "580.1",
        "clock_mhz": 345,
        "power_limit_w": 700.5,
    }
    assert probe.read_smi("") == {}


def test_a_processor_without_a_model_is_its_architecture():
    assert probe.processor("processor\t: 0\nmodel name\t: Some CPU\n") == "Some CPU"
    assert probe.processor("CPU implementer : 0x41") == platform.machine()
