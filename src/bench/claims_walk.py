"""The online softmax of one row in fp64: the recurrence that the page does by hand.

A row has one score and one value a key. The walk takes them in blocks, as the
kernel does, and can be told to go wrong in the ways that the page warns of.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.rows import Columns, Value

Claim = tuple[Columns, Columns]  # a case and its values

SCORES = (1.0, 2.0, 3.0, 0.0)
VALUES = (10.0, 20.0, 30.0, 40.0)
BLOCK_N = 2

FAULTS = ("alpha-forgotten", "old-maximum")


def claim(name: str, values: Columns, **parameters: Value) -> Claim:
    """The row of a claim: all its parameters are in the case."""
    return {"claim": name, **parameters}, values


@dataclass(frozen=True)
class State:
    """What one row carries after a block, and how it came to it."""

    block: int
    m_new: float
    p: tuple[float, ...]
    alpha: float
    l_i: float
    acc: float

    @property
    def out(self) -> float:
        """The softmax average of the values so far; 0 where no key was seen."""
        return self.acc / self.l_i if self.l_i else 0.0


def walk(
    scores: Sequence[float],
    values: Sequence[float],
    block_n: int = BLOCK_N,
    fault: str = "",
) -> list[State]:
    """The states after each block of `block_n` keys; `fault` is one of FAULTS."""
    if fault and fault not in FAULTS:
        raise ValueError(f"fault is one of {FAULTS}, got {fault!r}")
    states: list[State] = []
    m_i, l_i, acc = -math.inf, 0.0, 0.0
    for start in range(0, len(scores), block_n):
        s, v = scores[start : start + block_n], values[start : start + block_n]
        m_new = max(m_i, *s)
        base = _finite(m_i if fault == "old-maximum" else m_new)
        p = tuple(math.exp(score - base) for score in s)
        alpha = math.exp(m_i - _finite(m_new))
        l_i = l_i * alpha + sum(p)
        kept = acc if fault == "alpha-forgotten" else acc * alpha
        acc = kept + _dot(p, v)
        m_i = m_new
        states.append(State(len(states) + 1, m_new, p, alpha, l_i, acc))
    return states


def walk_normalised(
    scores: Sequence[float], values: Sequence[float], block_n: int = BLOCK_N
) -> float:
    """The first paper's bookkeeping: the output is a true average at each step."""
    m_i, l_i, out = -math.inf, 0.0, 0.0
    for start in range(0, len(scores), block_n):
        s, v = scores[start : start + block_n], values[start : start + block_n]
        m_new = max(m_i, *s)
        p = [math.exp(score - m_new) for score in s]
        alpha = math.exp(m_i - m_new)
        l_new = l_i * alpha + sum(p)
        out = (out * l_i * alpha + _dot(p, v)) / l_new
        m_i, l_i = m_new, l_new
    return out


def softmax_average(scores: Sequence[float], values: Sequence[float]) -> float:
    """The same number without blocks: the whole row at once."""
    top = max(scores)
    weights = [math.exp(score - top) for score in scores]
    return _dot(weights, values) / sum(weights)


def log_sum_exp(scores: Sequence[float]) -> float:
    top = max(scores)
    return top + math.log(sum(math.exp(score - top) for score in scores))


def worked_example() -> Iterator[Claim]:
    """The table of the page: the four scores, block by block, and the result."""
    states = walk(SCORES, VALUES)
    for state in states:
        first = (state.block - 1) * BLOCK_N
        yield claim(
            "worked-example",
            _columns(state),
            block=state.block,
            scores=_words(SCORES[first : first + BLOCK_N]),
            v=_words(VALUES[first : first + BLOCK_N]),
        )
    expected = softmax_average(SCORES, VALUES)
    agree(states[-1].out, expected, "the walk and softmax over the whole row")
    lse = states[-1].m_new + math.log(states[-1].l_i)
    agree(lse, log_sum_exp(SCORES), "m + log l and the log-sum-exp")
    yield claim("worked-result", {"out": states[-1].out, "lse": lse})


def bookkeeping(walks: int = 1000, keys: int = 64, seed: int = 0) -> Iterator[Claim]:
    """Dividing at each step or once at the end: the largest difference found."""
    draw = random.Random(seed)
    worst = 0.0
    for _ in range(walks):
        scores = [draw.gauss(0.0, 3.0) for _ in range(keys)]
        values = [draw.gauss(0.0, 1.0) for _ in range(keys)]
        at_the_end = walk(scores, values, 8)[-1].out
        at_each_step = walk_normalised(scores, values, 8)
        agree(at_the_end, at_each_step, "the two ways of keeping the books")
        worst = max(worst, abs(at_the_end - at_each_step))
    found: Columns = {"difference": worst}
    yield claim("bookkeeping", found, walks=walks, keys=keys, seed=seed)


def agree(found: float, expected: float, what: str, tolerance: float = 1e-12) -> None:
    """Stops the job when two ways to one number disagree (NaN never agrees)."""
    if not abs(found - expected) <= tolerance * max(1.0, abs(expected)):
        raise ValueError(f"{what} disagree: {found} and {expected}")


def _columns(state: State) -> Columns:
    p = {f"p_{index}": weight for index, weight in enumerate(state.p)}
    return {
        "m_new": state.m_new,
        **p,
        "alpha": state.alpha,
        "l_i": state.l_i,
        "acc": state.acc,
        "out": state.out,
    }


def _finite(maximum: float) -> float:
    """The kernel's m_safe: a row that has seen no key subtracts 0."""
    return 0.0 if maximum == -math.inf else maximum


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _words(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)
