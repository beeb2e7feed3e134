"""A page that is read against the code of the small project."""

from codewalk.accept import accept
from codewalk.config import Project
from codewalk.references import Library

DAY = "2026-11-20"
PAGE = """\
---
title: P
---
# Loops { #loops }

[again](src:demo/kernel.py#loop)

## Doubling { #doubling }

![](src:demo/kernel.py#scale.double)

## Nothing { #nothing }

No code.
"""
LOOPS, DOUBLING = "en/page#loops", "en/page#doubling"


def say(project: Project, *names: str, day: str = DAY) -> str:
    return "\n".join(accept(Library(project), names, day))
