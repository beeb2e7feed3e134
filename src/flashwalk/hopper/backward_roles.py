"""The backward's two smaller roles: who loads, and who computes dQ."""

# Triton's types are not annotations.
# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc"

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from flashwalk.hopper.backward_problem import (
    BATCH,
    BLOCK,
    BLOCKS,
    HEAD_K,
    KEY,
    KEYS,
    NUMBER,
    QUERIES,
    ROW,
    tma_reduce_add,
)
from flashwalk.hopper.pipeline import as_matrix


@gluon.jit
def load_tiles(
    q_desc, k_desc, v_desc, do_desc, lse_desc, delta_desc, ring, kv, problem
):
    """The loader: K, Q and V of a tile, then the other blocks of queries."""
    i = 0  # blocks of queries loaded so far
    for t in range(problem.first, problem.last):
        batch, head_k = problem.get(t, BATCH), problem.get(t, HEAD_K)
        key, block = problem.get(t, KEY), problem.get(t, BLOCK)
        n = problem.get(t, NUMBER)
        slot = n % kv.K_SLOTS
        mbarrier.wait(kv.k_empty.index(slot), ((n // kv.K_SLOTS) & 1) ^ 1)
        full = kv.k_full.index(slot)
        mbarrier.expect(full, kv.HALVES * k_desc.block_type.nbytes)
        for half in gl.static_range(kv.HALVES):
            tma.async_copy_global_to_shared(
                k_desc,
                [batch, head_k, key + half * KEYS, 0],
                full,
                kv.k.index(slot * kv.HALVES + half),
            )
        blocks = problem.get(t, BLOCKS)
        line = problem.get(t, ROW)
        for g in range(problem.group_size):
            head = head_k * problem.group_size + g
            for j in range(blocks):
                slot = i % ring.SLOTS
                row = (block + j) * QUERIES
                mbarrier.wait(ring.empty.index(slot), ((i // ring.SLOTS) & 1) ^ 1)
                full = ring.q_full.index(slot)
                mbarrier.expect(full, q_desc.block_type.nbytes + QUERIES * 4)
                tma.async_copy_global_to_shared(
                    q_desc, [batch, head, row, 0], full, ring.q.index(slot)
                )
                tma.async_copy_global_to_shared(
                    lse_desc, [line + j * QUERIES], full, ring.lse.index(slot)
                )
                # [load-v] V is needed after K and Q.
                if (g == 0) & (j == 0):
                    mbarrier.wait(kv.v_empty, (n & 1) ^ 1)
                    mbarrier.expect(kv.v_full, kv.HALVES * v_desc.block_type.nbytes)
                    for half in gl.static_range(kv.HALVES):
                        tma.async_copy_global_to_shared(
                            v_desc,
                            [batch, head_k, key + half * KEYS, 0],
                            kv.v_full,
                            kv.v.index(half),
                        )
                full = ring.do_full.index(slot)
                mbarrier.expect(full, do_desc.block_type.nbytes + QUERIES * 4)
                tma.async_copy_global_to_shared(
                    do_desc, [batch, head, row, 0], full, ring.do.index(slot)
                )
                tma.async_copy_global_to_shared(
                    delta_desc, [line + j * QUERIES], full, ring.delta.index(slot)
                )
                i += 1
            line += (block + blocks) * QUERIES


@gluon.jit
def dq_tiles(dq_desc, kv, exchange, problem):
    """Head dim 64: the warpgroup that computes dQ and nothing else."""
    HEAD_DIM: gl.constexpr = problem.HEAD_DIM
    DQ: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HEAD_DIM, 16])
    zeros = gl.zeros([QUERIES, HEAD_DIM], gl.float32, DQ)
    i = 0
    for t in range(problem.first, problem.last):
        n = problem.get(t, NUMBER)
        half = kv.wait_k(n)
        k_0, k_1 = as_matrix(kv.k.index(half)), as_matrix(kv.k.index(half + 1))
        row = problem.get(t, ROW)
        for _ in range(problem.group_size):
            for _ in range(problem.get(t, BLOCKS)):
                slot = i % exchange.SLOTS
                mbarrier.wait(exchange.full.index(slot), (i // exchange.SLOTS) & 1)
                ds_0 = exchange.ds.index(slot * 2).permute((1, 0))
                ds_1 = exchange.ds.index(slot * 2 + 1).permute((1, 0))
                dq = warpgroup_mma(ds_0, k_0, zeros, use_acc=False, is_async=True)
                dq = warpgroup_mma(ds_1, k_1, dq, is_async=True)
                dq = warpgroup_mma_wait(0, deps=[dq])
                mbarrier.arrive(exchange.empty.index(slot), count=1)
                tma.store_wait(1)
                staged = exchange.dq.index(i % 2)
                staged.store(dq)
                fence_async_shared()
                tma_reduce_add(dq_desc, [row, 0], staged)
                i += 1
                row += QUERIES
            row += problem.get(t, BLOCK) * QUERIES
        kv.release_k(n)
    tma.store_wait(0)
