"""Decoding with keys and values in NVFP4: one layer's attention in a loop of your own, 200 tokens after a prompt.

The cache takes 4.5 bits a number. The first 4 and the most recent 16 tokens are kept in BF16 beside it. With torch or
CuPy arrays on a GPU the same loop runs there: make the cache with like=tensor.
"""

import numpy as np

import microscale as ms

BATCH, HEADS, KV_HEADS, DIM, PROMPT, STEPS = 2, 8, 2, 64, 50, 200
rng = np.random.default_rng(0)


def normal(tokens, heads):
    return rng.standard_normal((BATCH, tokens, heads, DIM), dtype=np.float32)


cos_sin = ms.rope_tables(10000.0, PROMPT + STEPS, DIM)
cache = ms.KvCache.allocate(BATCH, KV_HEADS, DIM, PROMPT + STEPS, page_size=16, first=4, recent=16)
plain = ms.KvCache.allocate(BATCH, KV_HEADS, DIM, PROMPT + STEPS, format="mxfp8")  # to compare with: 8 bits

k, v = normal(PROMPT, KV_HEADS), normal(PROMPT, KV_HEADS)
for each in (cache, plain):
    each.append(k, v, rope=cos_sin)  # keys are turned on the way into the cache; queries are yours to turn

worst = 0.0
for _ in range(STEPS):
    q, k, v = normal(1, HEADS), normal(1, KV_HEADS), normal(1, KV_HEADS)
    outputs = []
    for each in (cache, plain):
        each.append(k, v, rope=cos_sin)
        outputs.append(ms.attention(q, cache=each))
    worst = max(worst, np.abs(outputs[0] - outputs[1]).max() / np.abs(outputs[1]).max())

print(f"{cache.lengths.tolist()} tokens in {cache.memory.nbytes} bytes; in MXFP8 {plain.memory.nbytes}")
print(f"largest difference of an output from MXFP8's: {worst:.2f} of its largest")
assert worst < 0.5
