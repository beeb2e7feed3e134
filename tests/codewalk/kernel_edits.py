"""Edits of the real kernels, and the sections that must hear of each.

What is done; the text before, which stands in exactly one of the two files, and
after; the names of the sections to read again, which are those of
test_review_mutations.
"""

STEP = "kernel file"  # who hears of a change in a step before or after the loop

EDITS = {
    # --- silent: formatting
    "spaces in a call": ("tl.exp(m_i - m_safe)", "tl.exp( m_i-m_safe )", ""),
    "a call on two lines": (
        "m_new = tl.maximum(m_i, tl.max(s, axis=1))",
        "m_new = tl.maximum(\n            m_i, tl.max(s, axis=1),\n        )",
        "",
    ),
    "a line continued": (
        "acc = acc * alpha[:, None]",
        "acc = acc \\\n * alpha[:, None]",
        "",
    ),
    "a blank line in a step": (
        "        l_i = l_i * alpha +",
        "\n        l_i = l_i * alpha +",
        "",
    ),
    "blank lines between steps": (
        "    # [finish] One",
        "\n\n\n    # [finish] One",
        "",
    ),
    "trailing spaces": ("m_i = m_new\n", "m_i = m_new   \n", ""),
    "parentheses that change nothing": (
        "s = s * softmax_scale",
        "s = (s * (softmax_scale))",
        "",
    ),
    "parentheses around a sum": (
        "l_i * alpha + tl.sum(p, axis=1)",
        "((l_i * alpha) + tl.sum(p, axis=1))",
        "",
    ),
    "a trailing comma": (
        "tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)",
        "tl.zeros([BLOCK_M, HEAD_DIM,], tl.float32,)",
        "",
    ),
    "other quotes": ('m_new == float("-inf")', "m_new == float('-inf')", ""),
    "a number written otherwise": (
        "tl.where(l_i == 0.0, 1.0, l_i)",
        "tl.where(l_i == 0., 1.00, l_i)",
        "",
    ),
    "underscores in a number": ("max_registers=128", "max_registers=1_2_8", ""),
    "two statements on a line": (
        "alpha = tl.exp(m_i - m_safe)  # [BLOCK_M]\n        l_i =",
        "alpha = tl.exp(m_i - m_safe); l_i =",
        "",
    ),
    "an f-string in other pieces": (
        'f"{name} must have batch * nheads * ceil(seqlen / {_MIN_BLOCK}) of at "\n'
        '                f"most {_MAX_PROGRAMS}, got {programs}"',
        'f"{name} must have batch * nheads * ceil(seqlen / {_MIN_BLOCK})"\n'
        '                " of at most "\n'
        '                f"{_MAX_PROGRAMS}, got {programs}"',
        "",
    ),
    # --- silent: comments and docstrings
    "a comment in a step": (
        "        # The maximum of a row that has seen no key is −inf, and\n",
        "        # Another comment.\n        # On two lines.\n",
        "",
    ),
    "a comment behind a line": (
        "# [BLOCK_M, BLOCK_N]\n        s = s",
        "\n        s = s",
        "",
    ),
    "a step's own sentence": ("Q is read once and stays", "Q is loaded, and stays", ""),
    "the sentence of a step in the loop": (
        "A key that must not count scores −inf, and so weighs 0.",
        "Hidden keys weigh nothing.",
        "",
    ),
    "a formatter's comment": ("    # fmt: on\n", "", ""),
    "a module's docstring": (
        "The forward kernel that the",
        "A forward kernel, which the",
        "",
    ),
    "a function's docstring": (
        "The tile that a launch uses for this",
        "The tile for this",
        "",
    ),
    "a class's docstring": ("How a launch cuts the work", "How work is cut", ""),
    "a docstring taken away": (
        '"""Raises ValueError unless the kernel may read x as it lies in memory."""',
        "",
        "",
    ),
    "a docstring added": (
        "    return tiles[min(",
        "    # Said here.\n    return tiles[min(",
        "",
    ),
    # --- a change elsewhere
    "a constant of the module": ("_MAX_SEQLEN = 2**30 - 1", "_MAX_SEQLEN = 2**29", ""),
    "a table beside a function": (
        "32: Tile(32, 16, 4, 1)",
        "32: Tile(64, 16, 4, 1)",
        "file",
    ),
    "an import": (
        "import torch\nimport triton\nimport",
        "import triton\nimport torch\nimport",
        "file",
    ),
    "a decorator of the kernel": (
        '"group_size", "seqlen_q", "seqlen_k",\n]',
        '"group_size",\n]',
        STEP,
    ),
    "a parameter of the kernel": (
        "    CAUSAL: tl.constexpr,\n",
        "    CAUSAL: tl.constexpr, X: tl.constexpr,\n",
        STEP,
    ),
    "an overload": ("return_lse: Literal[True],", "return_lse: Literal[1],", ""),
    "another function": ("number % 16 == 0", "number % 8 == 0", "file"),
    "a function before": (
        "def is_aligned(",
        "def odd(x: int) -> int:\n    return x + 1\n\n\ndef is_aligned(",
        "file",
    ),
    # --- functions and classes
    "a changed default": (
        "max_registers: int | None = None",
        "max_registers: int | None = 255",
        "tile file",
    ),
    "a field's type": ("    num_warps: int\n", "    num_warps: float\n", "tile file"),
    "a default of a function": (
        "aligned: bool = True",
        "aligned: bool = False",
        "tile-for file",
    ),
    "an annotation": (
        "head_dim: int, dtype",
        "head_dim: float, dtype",
        "tile-for file",
    ),
    "a decorator added": (
        "def tile_for(",
        "@staticmethod\ndef tile_for(",
        "tile-for file",
    ),
    "a word of the launch": (
        "maxnreg=tile.max_registers",
        "maxnreg=None",
        "launch file",
    ),
    "the order of arguments": (
        "q, k, v, out, lse,\n        softmax_scale,\n        *q",
        "k, q, v, out, lse,\n        softmax_scale,\n        *q",
        "launch file",
    ),
    "a check left out": (
        '    check_flag("deterministic", deterministic)\n',
        "",
        "attention",
    ),
    "a default of the last overload": (
        "    return_lse: bool = False,\n",
        "    return_lse: bool = True,\n",
        "attention",
    ),
    "a message's words": (
        'f"most {_MAX_PROGRAMS}',
        'f"the most {_MAX_PROGRAMS}',
        "sizes",
    ),
    "a message's format": ("got {seqlen}", "got {seqlen!r}", "sizes"),
    "a negation": ("x.stride(-1) != 1", "x.stride(-1) == 1", "access"),
}
