"""Triton kernels for test_emulator_triton.py, one of each kind that people write."""

import triton
import triton.language as tl


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def vector_add_unguarded(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) + tl.load(y + at))


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    values = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * columns + at, values / tl.sum(values, axis=0), mask=at < columns)


@triton.jit
def layernorm(x, weight, bias, out, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=0.0)
    mean = tl.sum(values, axis=0) / columns
    centred = tl.where(inside, values - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / columns + eps)
    made = centred * scale * tl.load(weight + at, mask=inside) + tl.load(bias + at, mask=inside)
    tl.store(out + row * columns + at, made, mask=inside)


@triton.jit
def matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    sums = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        inner = start + tl.arange(0, K)
        left = tl.load(
            a + rows[:, None] * k + inner[None, :],
            mask=(rows[:, None] < m) & (inner[None, :] < k),
            other=0.0,
        )
        right = tl.load(
            b + inner[:, None] * n + columns[None, :],
            mask=(inner[:, None] < k) & (columns[None, :] < n),
            other=0.0,
        )
        sums = tl.dot(left, right, sums)
    tl.store(
        c + rows[:, None] * n + columns[None, :], sums, mask=(rows[:, None] < m) & (columns[None, :] < n)
    )


@triton.jit
def column_sums(x, out, rows, columns, R: tl.constexpr, C: tl.constexpr):
    at = tl.program_id(0) * C + tl.arange(0, C)
    sums = tl.zeros((C,), tl.float32)
    for start in range(0, rows, R):
        row = start + tl.arange(0, R)
        inside = (row[:, None] < rows) & (at[None, :] < columns)
        sums += tl.sum(tl.load(x + row[:, None] * columns + at[None, :], mask=inside, other=0.0), axis=0)
    tl.store(out + at, sums, mask=at < columns)


@triton.jit
def running_sum(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, mask=at < columns, other=0)
    tl.store(out + row * columns + at, tl.cumsum(values, axis=0), mask=at < columns)


@triton.jit
def count_values(x, counts, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(counts + tl.load(x + at, mask=at < n, other=0), 1, mask=at < n)


@triton.jit
def attention(q, k, v, out, tokens, scale, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    depth = tl.arange(0, D)
    query = tl.load(q + rows[:, None] * D + depth[None, :], mask=rows[:, None] < tokens, other=0.0)
    most = tl.full((M,), -float("inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    sums = tl.zeros((M, D), tl.float32)
    for start in range(0, tokens, N):
        keys = start + tl.arange(0, N)
        inside = keys < tokens
        key = tl.load(k + keys[None, :] * D + depth[:, None], mask=inside[None, :], other=0.0)
        scores = tl.where(inside[None, :], tl.dot(query, key) * scale, -float("inf"))
        now = tl.maximum(most, tl.max(scores, axis=1))
        weights = tl.exp(scores - now[:, None])
        before = tl.exp(most - now)
        value = tl.load(v + keys[:, None] * D + depth[None, :], mask=inside[:, None], other=0.0)
        sums = sums * before[:, None] + tl.dot(weights.to(value.dtype), value)
        total = total * before + tl.sum(weights, axis=1)
        most = now
    tl.store(out + rows[:, None] * D + depth[None, :], sums / total[:, None], mask=rows[:, None] < tokens)


@triton.jit
def dropout(x, out, n, keep, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n)
    tl.store(out + at, tl.where(tl.rand(seed, at) < keep, values / keep, 0.0), mask=at < n)


@triton.jit
def gather_rows(table, index, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    chosen = tl.load(index + row)
    tl.store(
        out + row * columns + at,
        tl.load(table + chosen * columns + at, mask=at < columns),
        mask=at < columns,
    )


@triton.jit
def transpose(x, out, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    tile = tl.load(x + row[:, None] * columns + column[None, :], mask=inside)
    tl.store(out + column[:, None] * rows + row[None, :], tl.trans(tile), mask=tl.trans(inside))
