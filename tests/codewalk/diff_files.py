"""Two kernels, the second of which came from the first."""

from codewalk.config import Project

FIRST = '''\
"""The first of two."""


def first_sum(x):
    # [start] Nothing is summed up yet.
    y = 0

    # [scale] Twice the input, in steps.
    x = x + 1
    x = x * 2
    x = x - 1
    x = x * 1
    x = x + 0
    x = x / 1
    x = x // 1

    # [loop] Again and again.
    for n in range(3):
        # [add] Once more.
        y = y + x  # a note
        y = y + n
        y = max(y, "<b>")

        # [tail] What is over.
        y = y - n

    return y
'''
SECOND = '''\
"""The second of two."""


def second_sum(x):
    # [start] Nothing is summed up, so far.
    y = 0

    # [limit] No further than this.
    end = min(3, x)

    # [loop] Again and again.
    for n in range(end):
        # [add] Once more.
        y = y + x  # another note
        y = y + n
        y = max(y, "<i>")

        # [rest] What is over.
        y = y - n

    return y
'''
FILES = "demo/first.py..demo/second.py"


def add_diff_files(project: Project) -> None:
    """Writes both into the project."""
    for name, text in (("first", FIRST), ("second", SECOND)):
        path = project.root / f"src/demo/{name}.py"
        path.write_text(text, encoding="utf-8")
