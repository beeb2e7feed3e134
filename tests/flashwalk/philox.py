"""Philox in NumPy, and the mask that follows from it: nothing shared with a kernel.

Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".
"""

import numpy as np
import torch
from accuracy import Rejected, largest, matmul
from gradients import Case, Dropout, Share, scores_of

LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


def philox_4x32(counter, key):
    """Four arrays of 32 random bits, of a counter and a key in 32-bit parts."""
    c = [np.asarray(x, dtype=np.uint64) for x in np.broadcast_arrays(*counter)]
    k = [np.uint64(x) for x in key]
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> HALF) ^ c[1] ^ k[0], b & LOW, (a >> HALF) ^ c[3] ^ k[1], a & LOW]
        k = [(k[0] + np.uint64(0x9E3779B9)) & LOW, (k[1] + np.uint64(0xBB67AE85)) & LOW]
    return c


def keep_mask(seed: int, dropout_p: float, shape) -> np.ndarray:
    """(batch, nheads, seqlen_q, seqlen_k): which weights are kept."""
    b, h, i, j = np.ogrid[tuple(slice(size) for size in shape)]
    bits = philox_4x32((j // 4, i, h, b), (seed & 0xFFFFFFFF, seed >> 32))
    fraction = (np.choose(j % 4, bits) >> np.uint64(8)).astype(np.float32)
    return fraction >= np.float32(dropout_p) * np.float32(2**24)


def dropout_of(problem, seed: int, dropout_p: float) -> Dropout:
    """What this seed drops of the weights of a problem."""
    q, k = problem.q, problem.k
    keep = keep_mask(seed, dropout_p, (*q.shape[:3], k.shape[2]))
    factor = torch.from_numpy(keep).to(q.device).double() / (1 - dropout_p)
    return Dropout(torch.tensor([seed], device=q.device), dropout_p, factor)


def judge_output(case: Case, out: torch.Tensor) -> Share:
    """Compares an output with fp64; Rejected beyond twice the textbook's error."""
    exact = textbook_output(case, torch.float64)
    plain = textbook_output(case, out.dtype).double()
    rounding = 2 * torch.finfo(out.dtype).eps * largest(exact)
    share = Share(
        "out", largest(out.double() - exact), 2 * largest(plain - exact) + rounding
    )
    if not share.error <= share.budget:
        raise Rejected(str(share))
    return share


def textbook_output(case: Case, dtype: torch.dtype) -> torch.Tensor:
    """The weights as a matrix, what is dropped set to 0, times v: in `dtype`."""
    _, _, v, _, scores = scores_of(case, dtype)
    return matmul(scores.softmax(-1) * case.dropout.factor.to(dtype), v)
