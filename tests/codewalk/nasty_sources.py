"""Source files of kinds that break tools: name, bytes, and an address in each."""

KERNEL = (
    "def f(x):\n    # [one] First.\n    y = 1\n\n    # [two] Second.\n    return y\n"
)

DEEP = """\
def outer():
    class Inner:
        def method(self):
            # [deep] In a method of a class of a function.
            if self:
                return 1
            return 2
    return Inner
"""

DECORATED = """\
@outer(
    a=1,
    b="# [no] Step.",
)
@inner
def f(x):
    # [one] First.
    return x
"""

STRINGS = '''\
def f(x):
    """Shows a fence and more.

    ```python
    # [no] Step.
    ```
    </script><script>alert(1)</script> <!-- & &amp; -->
    """
    # [one] Quotes in quotes: '"' and "'" and `x` and </pre>.
    y = f"{x!r:>{len('ab')}} {'a' + 'b'}" + r"\\d" + b"\\x00".decode()
    return '\\'"\\'' + "</code></pre>"
'''

SOURCES: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "plain.py": (KERNEL.encode(), ("one", "f.two", "f", "")),
    "crlf.py": (KERNEL.replace("\n", "\r\n").encode(), ("one", "f", "")),
    "cr.py": (KERNEL.replace("\n", "\r").encode(), ("one", "f")),
    "bom.py": (b"\xef\xbb\xbf" + KERNEL.encode(), ("one", "f", "")),
    "tabs.py": (KERNEL.replace("    ", "\t").encode(), ("one", "two", "f")),
    "mixed.py": (
        b"def f(x):\n\tif x:\n\t    # [one] A tab, then spaces.\n\t    y = 1\n"
        b"\n\t    z = (\n1\n  )\n",
        ("one", "f"),
    ),
    "form_feed.py": (
        b"x = 'a\x0cb'\n\x0cdef f(x):\n    # [one] F.\n    return '\x0c'\n",
        ("one", "f", ""),
    ),
    "separators.py": (
        "def f(x):\n    # [one] \u2028 and \u2029 and \x85 in it.\n"
        "    return 'a\u2028b\u2029c\x85d\x1ce'\n".encode(),
        ("one", "f", ""),
    ),
    "no_final_newline.py": (KERNEL.rstrip("\n").encode(), ("two", "f", "")),
    "empty.py": (b"", ()),
    "only_newlines.py": (b"\n\n\n", ("",)),
    "latin_1.py": (
        "# -*- coding: latin-1 -*-\ndef f():\n    # [one] É.\n    return 'é'\n".encode(
            "latin-1"
        ),
        ("one", ""),
    ),
    "strings.py": (STRINGS.encode(), ("one", "f", "")),
    "decorated.py": (DECORATED.encode(), ("one", "f")),
    "deep.py": (DEEP.encode(), ("deep", "outer.Inner.method.deep", "outer.Inner")),
    "twice.py": (
        b"def f():\n    return 1\n\n\ndef f():\n    # [one] O.\n    return 2\n",
        ("f", "one"),
    ),
    "chinese.py": (
        "def 函数(值):\n    # [one] 一句话。\n    return 值  # ﬁ 𝒳 é\n".encode(),
        ("函数", "one", "函数.one"),
    ),
    "escape.py": (rb"def f():" b"\n    # [one] O.\n    return '\\d'\n", ("one",)),
    "continued.py": (
        b"def f(x):\n    # [one] O.\n    y = x + \\\n  1; z = '''\n# [no] N.\n'''\n",
        ("one", "f"),
    ),
    "leading_blank.py": (b"\n\n\ndef f():\n\n    # [one] O.\n    pass\n", ("one", "")),
}

# What is refused, and the word that says so.
REFUSED: dict[str, tuple[bytes, str]] = {
    "syntax.py": (b"def f(:\n", "not Python that parses"),
    "null.py": (b"x = '\0'\n", "not Python that parses"),
    "utf_16.py": ("x = 1\n".encode("utf-16"), "cannot be read as text"),
    "latin_1_bare.py": (b"x = '\xe9'\n", "cannot be read as text"),
    "no_codec.py": (b"# coding: none-such\n", "cannot be read as text"),
    "no_text_codec.py": (b"# coding: rot13\nx = 1\n", "cannot be read as text"),
    "bad_idna.py": (b"# coding: idna\nx = 'xn--\xff'\n", "cannot be read as text"),
    "unclosed.py": (b"x = (\n", "not Python that parses"),
    "deep_nest.py": (b"x = " + b"-" * 200_000 + b"1\n", "nested too deeply"),
    "same_step.py": (
        b"def f():\n    # [a] A.\n    x = 1\n    # [a] A.\n    y = 1\n",
        "already at line 2",
    ),
}

# Names that must be encoded in an address, in a link and on the disk.
NAMES = (
    "with space.py",
    "百分之五十%.py",
    "a#b.py",
    "50%25.py",
    "q?x&y=1.py",
    "it's.py",
)


def long_source(lines: int) -> str:
    """A source of that many lines, as dense as a kernel."""
    body = KERNEL.replace("def f", "def function_{0}")
    body += "\n\n"
    more = "    s = tl.where(visible, s, float('-inf')) * scale  # [M, N]\n" * 12
    body = body.replace("    # [two]", more + "    # [two]")
    count = lines // body.count("\n") + 1
    text = "".join(body.replace("{0}", str(n)) for n in range(count))
    return "\n".join(text.split("\n")[:lines]) + "\n"
