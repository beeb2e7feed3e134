"""Compiles the Hopper backward for sm_90 with no GPU; prints JSON.

As `compile_sm90` does for the forward: the real `launch` chooses the tile and
passes the arguments, and only its last step is replaced.
"""

import contextlib
import io
import json
import re
from itertools import product
from typing import NamedTuple

import torch
from compile_sm90 import Skipped, compile_all, standing_in

HEAD_DIMS = (64, 96, 128, 256)  # 96: a quarter of the padded columns is empty
# Lengths that tiles divide, and lengths that none divides: other masks.
LENGTHS = {"aligned": (4096, 4096), "crossing": (4000, 4097)}
KERNELS = {
    64: {"attn_bwd": ("backward", "_attn_bwd")},
    96: {"attn_bwd": ("backward", "_attn_bwd")},
    128: {"attn_bwd": ("backward", "_attn_bwd")},
    256: {
        "dkdv": ("backward_wide", "_attn_bwd_dkdv"),
        "dq": ("backward_queries", "_attn_bwd_dq"),
    },
}


class Case(NamedTuple):
    """One launch."""

    head_dim: int
    causal: bool
    lengths: str


def compile_case(case: Case) -> list[dict]:
    """Compiles what a launch runs; returns, of each kernel, what ptxas says."""
    from flashwalk.hopper import (
        backward,
        backward_host,
        backward_queries,
        backward_wide,
        host,
    )

    modules = {
        "backward": backward,
        "backward_queries": backward_queries,
        "backward_wide": backward_wide,
    }
    plan = torch.empty(16, dtype=torch.int32, device="meta")
    for module in (backward_host, backward_queries, backward_wide):
        module.records_on_device = lambda *args: (plan, plan)
    for module in (backward, backward_wide):
        module.keep_for_graphs = lambda holder: None
    host.multiprocessors = lambda device: 132
    # The small kernels before and after are not what is asked about here.
    backward.around._before = backward.around._after = Skipped()
    found = []
    seqlen_q, seqlen_k = LENGTHS[case.lengths]
    q = torch.empty(2, 16, seqlen_q, case.head_dim, dtype=torch.bfloat16, device="meta")
    k = torch.empty(2, 4, seqlen_k, case.head_dim, dtype=torch.bfloat16, device="meta")
    lse = torch.empty(q.shape[:-1], dtype=torch.float32, device="meta")
    places = {
        name: (modules[module], kernel)
        for name, (module, kernel) in KERNELS[case.head_dim].items()
    }
    for name, place in places.items():
        log = io.StringIO()
        with (
            standing_in(place, places.values()) as warmup,
            contextlib.redirect_stdout(log),
        ):
            backward.launch(
                *(q, k, k, q, lse, q, lse, q, k, k),
                causal=case.causal,
                softmax_scale=0.125,
            )
        spills = map(int, re.findall(r"(\d+) bytes spill", log.getvalue()))
        found.append(
            case._asdict()
            | {
                "kernel": name,
                "spill_bytes": sum(spills),
                "warnings": re.findall(r".*\bC75\d\d\b.*", log.getvalue()),
                "shared_bytes": warmup.compiled.metadata.shared,
            }
        )
    return found


def main() -> None:
    """Compiles every case and prints a JSON list."""
    cases = [Case(*c) for c in product(HEAD_DIMS, (False, True), LENGTHS)]
    print(json.dumps([x for found in compile_all(cases, compile_case) for x in found]))


if __name__ == "__main__":
    main()
