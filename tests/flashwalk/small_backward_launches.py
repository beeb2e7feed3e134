"""Small launches of the Hopper backward, for a sanitizer to watch. A program."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from flashwalk.hopper import backward, forward


def main() -> None:
    """Each head dim, with and without a mask, at lengths that no tile divides."""
    for head_dim in (64, 128, 256):
        for causal in (False, True):
            how = {"causal": causal, "softmax_scale": 0.1}
            q, do = (
                torch.randn(1, 4, 200, head_dim, device="cuda", dtype=torch.bfloat16)
                for _ in "qo"
            )
            k, v = (
                torch.randn(1, 2, 300, head_dim, device="cuda", dtype=torch.bfloat16)
                for _ in "kv"
            )
            out, lse = torch.empty_like(q), torch.empty(q.shape[:-1], device="cuda")
            forward.launch(q, k, v, out, lse, **how)
            gradients = [torch.empty_like(x) for x in (q, k, v)]
            backward.launch(q, k, v, out, lse, do, None, *gradients, **how)
            torch.cuda.synchronize()
            assert all(x.isfinite().all() for x in gradients)


if __name__ == "__main__":
    main()
