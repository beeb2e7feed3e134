"""How a symbol stands on a line: as a definition, as a use, as text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codewalk.upstream.roles import ROLES, role_of

C_CASES = [
    ("void f(int x) {", "f", "definition"),
    ("void f(int x) {", "f(int", "definition"),
    ("inline __device__ void f(const P &p) {", "f", "definition"),
    ("f(x);", "f", "use"),
    ("return f(x);", "f", "use"),
    ("if (f(x)) { g(); }", "f", "use"),
    ("a = b; f(x);", "f", "use"),
    ("ns::f(x);", "f", "use"),
    ("mask.template f<A, B>(x);", "f", "use"),
    ("Tensor r = f<E>(acc);", "f", "use"),
    ("int n = m - 1;", "int n", "definition"),
    ("int n = m - 1;", "m", "use"),
    ("n = m - 1;", "n = m", "use"),
    ("constexpr int n = (!A && !B)", "n", "definition"),
    ("auto load = [&] (int x) {", "auto load = [&]", "definition"),
    ("dim3 grid(a, b);", "dim3 grid(a", "definition"),
    ("using T = U<", "using T", "definition"),
    ("cute::tuple<int, int> f(", "f", "definition"),
    ("__global__ __launch_bounds__(N::T) void f(P p) {", "f", "definition"),
    ("template <int a = 0, bool B = true> int f() {", "f", "definition"),
    ("template <int a = 0, bool B = true> int f() {", "a", "use"),
    ("#define F(x) \\", "F", "definition"),
    ("struct S {", "S", "definition"),
    ("for (int i = 0; i < n; ++i) {", "i < n", "use"),
    ("// f is called", "f is", "text"),
    ("x = 1; /* void f() */", "f", "text"),
    ('g("void f(");', "void f(", "use"),
    ("fx(f2);", "f", ""),
    ("void f(); // and f(x)", "f(x", "text"),
]
PYTHON_CASES = [
    ("def f(x):", "f", "definition"),
    ("def f(x):", "def f", "definition"),
    ("def f(x):", "x", "use"),
    ("class A:", "class A", "definition"),
    ("n = m + 1", "n = m", "definition"),
    ("n = m + 1", "m", "use"),
    ("n += 1", "n += 1", "use"),
    ("a, b = 0, 1", "a, b = 0", "definition"),
    ("a[0] = 1", "a[0] = 1", "use"),
    ("n: int = 1", "n", "definition"),
    ("f(n=1)", "n=1", "use"),
    ("# n = 1", "n = 1", "text"),
    ("x = 1  # n = 1", "n = 1", "text"),
    ("g('# n = 1')", "n = 1", "use"),
    ("äö = n = 1", "n = 1", "definition"),
    ("nn = 1", "n", ""),
]


@pytest.mark.parametrize(("line", "symbol", "role"), C_CASES)
def test_c(line: str, symbol: str, role: str) -> None:
    assert role_of("a.cuh", ["}", line, ""], 2, symbol) == role


def test_c_over_several_lines() -> None:
    lines = ["  /* void f(", "f( */", "static int", "f(int x) {", "  g(", "    f, 1);"]
    roles = [role_of("a.h", lines, n, "f") for n in (1, 2, 4, 6)]
    assert roles == ["text", "text", "definition", "use"]


@pytest.mark.parametrize(("line", "symbol", "role"), PYTHON_CASES)
def test_python(line: str, symbol: str, role: str) -> None:
    body = ["    pass"] if line.endswith(":") else []
    assert role_of("a.py", ["import x", line, *body], 2, symbol) == role


def test_docstrings_are_text() -> None:
    lines = ["def f():", '    """Calls g', '    and g."""', "    s = '''g", "    '''"]
    assert [role_of("a.py", lines, n, "g") for n in (2, 3, 4)] == [
        "text",
        "text",
        "use",
    ]


@pytest.mark.parametrize(
    ("line", "symbol", "role"),
    [
        ("    def f(", "def f", "definition"),
        ("    n, m = f(1)", "n, m", "definition"),
        ("    n = {{x}}", "n = {{x}}", "definition"),
        ("    f(n=1)", "n=1", "use"),
        ("    n == 1", "n == 1", "use"),
        ("    {{f(n)}}  # n = 2", "n = 2", "text"),
    ],
)
def test_a_template_of_python_is_judged_by_the_line(
    line: str, symbol: str, role: str
) -> None:
    assert role_of("a.py.jinja", ["{{ head }}", line], 2, symbol) == role


def test_prose() -> None:
    lines = ["A title", "=======", "", "words of A title", "# Head"]
    roles = [role_of("a.rst", lines, n, s) for n, s in ((1, "title"), (4, "title"))]
    assert roles == ["definition", "text"]
    assert role_of("a.md", lines, 5, "Head") == "definition"


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    text=st.text(alphabet="fdeg(=)<>{}#/*\"'; \n:,é\x0c", max_size=60),
    path=st.sampled_from(["a.h", "a.py", "a.jinja", "a.rst"]),
)
def test_any_text_has_a_role(text: str, path: str) -> None:
    lines = text.split("\n")
    for number in range(len(lines) + 2):
        assert role_of(path, lines, number, "f") in ("", *ROLES)
