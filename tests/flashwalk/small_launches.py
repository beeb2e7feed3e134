"""Small launches of the Hopper kernel, for a sanitizer to watch. A program."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from flashwalk.hopper import forward


def main() -> None:
    """Each head dim, with and without a mask, at lengths that no tile divides."""
    for head_dim in (64, 128, 256):
        for causal in (False, True):
            q = torch.randn(1, 4, 200, head_dim, device="cuda", dtype=torch.bfloat16)
            k, v = (
                torch.randn(1, 2, 300, head_dim, device="cuda", dtype=torch.bfloat16)
                for _ in "kv"
            )
            out = torch.empty_like(q)
            lse = torch.empty(q.shape[:-1], device="cuda")
            forward.launch(q, k, v, out, lse, causal=causal, softmax_scale=0.1)
            torch.cuda.synchronize()
            assert out.isfinite().all()


if __name__ == "__main__":
    main()
