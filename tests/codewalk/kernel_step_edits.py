"""Edits of single steps of the real kernel: see kernel_edits."""

from kernel_edits import STEP

LOOP = f"loop {STEP}"  # who hears of a change in a step of the loop

EDITS = {
    # --- a change in a step before or after the loop
    "a renamed variable": (
        "start_m = tl.program_id(0) % num_m_blocks",
        "first = tl.program_id(0) % num_m_blocks",
        f"program {STEP}",
    ),
    "a type left out": (
        "off_h = (off_bh % nheads).to(tl.int64)",
        "off_h = off_bh % nheads",
        f"program {STEP}",
    ),
    "an operator": ("off_h // group_size", "off_h % group_size", f"offsets {STEP}"),
    "a constant": (
        'tl.full([BLOCK_M], float("-inf")',
        'tl.full([BLOCK_M], float("-1e6")',
        f"state {STEP}",
    ),
    "a dtype": (
        "l_i = tl.zeros([BLOCK_M], tl.float32)",
        "l_i = tl.zeros([BLOCK_M], tl.float16)",
        f"state {STEP}",
    ),
    "a number of another type": (
        "tl.where(l_i == 0.0, 1.0",
        "tl.where(l_i == 0, 1.0",
        f"finish {STEP}",
    ),
    "statements in another order": (
        '    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)  # [BLOCK_M]\n'
        "    l_i = tl.zeros([BLOCK_M], tl.float32)  # [BLOCK_M]\n",
        "    l_i = tl.zeros([BLOCK_M], tl.float32)\n"
        '    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)\n',
        f"state {STEP}",
    ),
    "a branch turned around": (
        "    if CAUSAL:\n        diagonal",
        "    if not CAUSAL:\n        diagonal",
        f"bound {STEP}",
    ),
    "the other branch": (
        "        hi = seqlen_k\n",
        "        hi = seqlen_k + 0\n",
        f"bound {STEP}",
    ),
    "a line at a step's end": (
        "    lse = m_i + tl.log(l_safe)  # [BLOCK_M]\n",
        "    lse = m_i + tl.log(l_safe)\n    lse = lse * 1.0\n",
        f"finish {STEP}",
    ),
    "a line at a step's start": (
        "    o_at = o_base",
        "    tl.debug_barrier()\n    o_at = o_base",
        f"store {STEP}",
    ),
    "a mask left out": (
        "out_ptr.dtype.element_ty), mask=q_mask)",
        "out_ptr.dtype.element_ty))",
        f"store {STEP}",
    ),
    "lines that go to the next step": (
        "    # [finish] One division a row. A row that saw no key gives 0, lse −inf.\n"
        "    l_safe = tl.where(l_i == 0.0, 1.0, l_i)\n",
        "    l_safe = tl.where(l_i == 0.0, 1.0, l_i)\n    # [finish] One division.\n",
        "finish loop",
    ),
    # --- a change in the loop
    "the loop's bound": ("range(0, hi, BLOCK_N)", "range(0, seqlen_k, BLOCK_N)", LOOP),
    "the loop's own call": ("in range(0, hi", "in tl.range(0, hi", LOOP),
    "swapped indices": (
        "cols[None, :].to(tl.int64)",
        "cols[:, None].to(tl.int64).T",
        f"load-k {LOOP}",
    ),
    "a step's keyword": (
        'tl.dot(q, k, input_precision="ieee")',
        "tl.dot(q, k)",
        f"scores {LOOP}",
    ),
    "a string's content": (
        'acc, input_precision="ieee"',
        'acc, input_precision="tf32"',
        f"accumulate {LOOP}",
    ),
    "a comparison": (
        "cols[None, :] <= last_key",
        "cols[None, :] < last_key",
        f"mask {LOOP}",
    ),
    "a condition": (
        "        if CAUSAL:\n            last_key",
        "        if CAUSAL and True:\n            last_key",
        f"mask {LOOP}",
    ),
    "a line added in a step": (
        "        visible = in_keys[None, :]\n",
        "        visible = in_keys[None, :]\n        s = s + 0.0\n",
        f"mask {LOOP}",
    ),
    "an axis": ("tl.max(s, axis=1)", "tl.max(s, axis=0)", f"new-max {LOOP}"),
    "a guard taken away": (
        'tl.where(m_new == float("-inf"), 0.0, m_new)',
        "m_new",
        f"new-max {LOOP}",
    ),
    "a sign": ('m_new == float("-inf")', 'm_new == float("inf")', f"new-max {LOOP}"),
    "another function called": ("p = tl.exp(s", "p = tl.exp2(s", f"weights {LOOP}"),
    "a line deleted": ("        acc = acc * alpha[:, None]\n", "", f"rescale {LOOP}"),
    "a variable of the step before": (
        "alpha = tl.exp(m_i - m_safe)",
        "alpha = tl.exp(m_i - m_new)",
        f"rescale {LOOP}",
    ),
    "lines in another order": (
        "        acc = acc * alpha[:, None]\n        m_i = m_new\n",
        "        m_i = m_new\n        acc = acc * alpha[:, None]\n",
        f"rescale {LOOP}",
    ),
    "parentheses that change something": (
        "l_i * alpha + tl.sum(p, axis=1)",
        "l_i * (alpha + tl.sum(p, axis=1))",
        f"rescale {LOOP}",
    ),
    "an augmented assignment": (
        "acc = acc * alpha[:, None]",
        "acc *= alpha[:, None]",
        f"rescale {LOOP}",
    ),
    "a line that goes to the step before": (
        "        # [rescale] Both old sums move from the old maximum to the new one.\n"
        "        alpha = tl.exp(m_i - m_safe)  # [BLOCK_M]\n",
        "        alpha = tl.exp(m_i - m_safe)  # [BLOCK_M]\n"
        "        # [rescale] Both old sums move from the old maximum to the new one.\n",
        "weights rescale",
    ),
    "a line moved out of the loop": (
        "        cols = start_n + offs_n\n        in_keys",
        "        in_keys",
        f"load-k {LOOP}",
    ),
    "a new step inside a step": (
        "        k_mask = in_head",
        "        # [key-mask] A name for these lines.\n        k_mask = in_head",
        "load-k",
    ),
}
