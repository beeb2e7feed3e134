"""Runs a notebook as a job: `python -m codewalk.jobs.notebook PATH`.

Each cell runs once, in order, in a fresh kernel at the project's root; a cell
that fails ends the job. What it showed goes into the executed copy, which holds
nothing that differs from run to run. A cell before the first and one after the
last list the files that the kernel used; they are in no copy. Cells may report
rows of their own, as any job does.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from codewalk.digest import digest_bytes

_BEFORE = """\
import os as _codewalk_os
from codewalk.jobs import tracer as _codewalk_tracer
_codewalk_tracer = _codewalk_tracer.begin(_codewalk_os.environ["CODEWALK_ROOT"])
"""
_AFTER = '_codewalk_tracer.save(_codewalk_os.environ["CODEWALK_INPUTS"])\n'
_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def main(words: list[str]) -> None:
    """Executes the notebook; writes the copy and a row about it."""
    if len(words) != 1:
        sys.exit("usage: python -m codewalk.jobs.notebook PATH")
    (name,) = words
    executed = normal(_execute(Path(name).read_text(encoding="utf-8")))
    text = json.dumps(executed, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    if os.getcwd() in text:
        sys.exit(f"{name}: its output names a folder of this machine")
    data = text.encode("utf-8")
    Path(os.environ["CODEWALK_EXECUTED"]).write_bytes(data)
    cells = sum(cell["cell_type"] == "code" for cell in executed["cells"])
    row = {
        "case": {"notebook": name},
        "values": {"cells": cells, "executed": digest_bytes(data)},
    }
    with open(os.environ["CODEWALK_ROWS"], "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def _execute(text: str) -> dict[str, Any]:
    """The notebook with the outputs of its cells."""
    # Here: nothing else that runs a job needs more than the standard library.
    import nbformat
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    # A debugger would warn that it cannot see into frozen modules.
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    notebook = nbformat.reads(text, as_version=4)  # type: ignore[no-untyped-call]
    own = notebook.cells
    before, after = map(nbformat.v4.new_code_cell, (_BEFORE, _AFTER))
    notebook.cells = [before, *own, after]
    # Its sockets lie beside the rows, in the folder that goes when the job ends.
    sockets = Path(os.environ["CODEWALK_ROWS"]).with_name("kernel")
    manager = AsyncKernelManager(transport="ipc", ip=str(sockets))
    # This Python, whatever kernels are installed for others.
    words = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager._kernel_spec = KernelSpec(argv=words, **_spec_names())
    client = NotebookClient(notebook, km=manager, timeout=None, record_timing=False)

    async def execute() -> None:
        try:
            await client.async_execute()
        finally:
            await manager.shutdown_kernel(now=True)

    try:
        asyncio.run(execute())
    except CellExecutionError as error:
        sys.exit(f"a cell failed: {error}")
    notebook.cells = own
    whole = nbformat.writes(notebook, version=4)  # type: ignore[no-untyped-call]
    plain: dict[str, Any] = json.loads(whole)
    return plain


def _spec_names() -> dict[str, str]:
    return {key: _KERNEL[key] for key in ("display_name", "language")}


def normal(book: dict[str, Any]) -> dict[str, Any]:
    """The notebook without what differs from run to run, or machine to machine."""
    cells = [_normal_cell(cell) for cell in book["cells"]]
    count = 0
    for cell in cells:
        if cell["cell_type"] == "code":
            count += 1
            cell["execution_count"] = count
            for output in cell["outputs"]:
                if output["output_type"] == "execute_result":
                    output["execution_count"] = count
    metadata = {"kernelspec": _KERNEL, "language_info": {"name": "python"}}
    return {
        "cells": cells,
        "metadata": metadata,
        "nbformat": 4,
        "nbformat_minor": book.get("nbformat_minor", 5),
    }


def _normal_cell(cell: dict[str, Any]) -> dict[str, Any]:
    metadata = {k: v for k, v in cell["metadata"].items() if k != "execution"}
    kept = {**cell, "metadata": metadata}
    if cell["cell_type"] == "code":
        kept["outputs"] = _merged(cell.get("outputs", []))
    return kept


def _merged(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Neighbouring pieces of one stream as one: how they are cut is chance."""
    found: list[dict[str, Any]] = []
    for output in outputs:
        if output["output_type"] != "stream":
            found.append(output)
            continue
        last = found[-1] if found else {}
        if last.get("output_type") == "stream" and last["name"] == output["name"]:
            text = "".join([*last["text"], *output["text"]])
            last["text"] = text.splitlines(keepends=True)
        else:
            found.append(dict(output))
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
