"""Claims that need the compiler, from a process of their own.

The interpreter and the compiler cannot share a process: claims.py, which
interprets, starts each program that compiles beside itself and reads what it
prints, JSON lines of [case, values].
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable

from bench.claims_walk import Claim


def claims_of(module: str) -> list[Claim]:
    """What `python -m module` prints."""
    # Neither the interpreter nor what records this job's inputs goes along:
    # every file that the other process reads, this one has read as well.
    environment = {
        name: value
        for name, value in os.environ.items()
        if name != "TRITON_INTERPRET" and not name.startswith("CODEWALK_")
    }
    command = [sys.executable, "-m", module]
    lines = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return [tuple(json.loads(line)) for line in lines.stdout.splitlines()]


def print_claims(sources: Iterable[Callable[[], Iterable[Claim]]]) -> None:
    """The other side: prints the claims of a program that compiles."""
    if os.environ.get("TRITON_INTERPRET"):
        raise SystemExit("unset TRITON_INTERPRET: nothing compiles under it")
    for claims in sources:
        for row in claims():
            print(json.dumps(row))
