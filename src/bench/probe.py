"""Prints the facts about this machine that a record carries, as one JSON object.

    python -m bench.probe

What cannot be known here is left out. A host's name is never among the facts.
"""

import importlib
import importlib.metadata
import json
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

Facts = dict[str, str | int | float]

# Distributions whose version says which peer was measured.
PEERS = ("tokenspeed-fa3", "flash-attn-4", "nvidia-cutlass-dsl", "quack-kernels")


def probe() -> dict[str, Any]:
    torch = _import("torch")
    has_gpu = torch is not None and torch.cuda.is_available()
    return {
        "device": gpu(torch) if has_gpu else cpu(),
        "software": software(torch),
        "provides": provides(torch) if has_gpu else ["cpu"],
    }


def gpu(torch: Any) -> Facts:
    """The current GPU. The clock is that of a GPU just woken, under no load."""
    torch.zeros(1, device="cuda")
    properties = torch.cuda.get_device_properties("cuda")
    return {
        "id": slug(properties.name),
        "name": properties.name,
        "memory_mib": properties.total_memory // 2**20,
        "sm_count": properties.multi_processor_count,
        **_nvidia_smi(str(getattr(properties, "uuid", ""))),
    }


def cpu() -> Facts:
    return {"id": "cpu", "name": processor(_read("/proc/cpuinfo"))}


def processor(cpuinfo: str) -> str:
    """The model that /proc/cpuinfo names, or the architecture."""
    model = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return model[1].strip() if model else platform.machine()


def provides(torch: Any) -> list[str]:
    major, minor = torch.cuda.get_device_capability()
    return ["cpu", "cuda", f"sm_{major}{minor}"]


def software(torch: Any) -> dict[str, str]:
    triton, numpy = _import("triton"), _import("numpy")
    versions = {
        "python": platform.python_version(),
        "torch": torch and torch.__version__,
        "cuda": torch and torch.version.cuda,
        "cudnn": torch and torch.backends.cudnn.version(),
        "triton": triton and triton.__version__,
        "ptxas": triton and _ptxas(Path(triton.__file__).parent),
        "numpy": numpy and numpy.__version__,
        **{name: _version(name) for name in PEERS},
    }
    return {name: str(version) for name, version in versions.items() if version}


def slug(name: str) -> str:
    """NVIDIA H200 -> nvidia-h200"""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


# What nvidia-smi calls it, and what we do.
_SMI = {
    "driver_version": "driver",
    "clocks.sm": "clock_mhz",
    "clocks.max.sm": "clock_max_mhz",
    "power.limit": "power_limit_w",
}


def _nvidia_smi(uuid: str) -> Facts:
    command = [
        "nvidia-smi",
        f"--query-gpu={','.join(_SMI)}",
        "--format=csv,noheader,nounits",
        f"--id={'GPU-' + uuid if uuid else '0'}",
    ]
    return read_smi(_output(command))


def read_smi(line: str) -> Facts:
    """The facts in one line of nvidia-smi's answer; [N/A] is none."""
    facts: Facts = {}
    for name, text in zip(_SMI.values(), line.split(","), strict=False):
        word = text.strip()
        if name == "driver" and word:
            facts[name] = word
        elif re.fullmatch(r"\d+(\.\d+)?", word):
            number = float(word)
            facts[name] = int(number) if number.is_integer() else number
    return facts


def _ptxas(triton: Path) -> str:
    """The version of the assembler that Triton brings."""
    path = triton / "backends" / "nvidia" / "bin" / "ptxas"
    found = re.search(r"\bV([\d.]+)", _output([str(path), "--version"]))
    return found[1] if found else ""


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


if __name__ == "__main__":
    print(json.dumps(probe()))
