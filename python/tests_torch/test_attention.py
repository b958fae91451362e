"""attention, cached_attention and append_kv as operators; KvCache in eager and compiled decoding."""

import pytest
import torch
import torch.nn.functional as F

import microscale as ms
import microscale.torch as mst

ops = torch.ops.microscale


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def dense(q, k, v, **words):
    """Of torch, in double precision; heads of k and v are shared by groups of q's."""
    q, k, v = (t.double().transpose(1, 2) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True, **words).transpose(1, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_is_torchs(dtype):
    q, k, v = (
        torch.randn(2, 5, 4, 64).to(dtype),
        torch.randn(2, 9, 2, 64).to(dtype),
        torch.randn(2, 9, 2, 64).to(dtype),
    )
    y = ops.attention(q, k, v)
    assert y.dtype == dtype
    torch.testing.assert_close(y.double(), dense(q, k, v), rtol=2e-2, atol=2e-2)
    y = ops.attention(q, k[:, :5], v[:, :5], None, True)
    torch.testing.assert_close(
        y.double(), dense(q, k[:, :5], v[:, :5], is_causal=True), rtol=2e-2, atol=2e-2
    )
    out = torch.empty_like(q)
    ops.attention_out(q, k, v, 0.5, False, 0, 0.0, None, None, None, 0, 0, "storage", out)
    torch.testing.assert_close(out.double(), dense(q, k, v, scale=0.5), rtol=2e-2, atol=2e-2)


WORDS = [
    {},
    {"page_size": 16},
    {"format": "mxfp8", "page_size": 32},
    {"first": 2, "recent": 4},
    {"hadamard": 16},
]


@pytest.mark.parametrize("words", WORDS, ids=str)
def test_a_cache_is_the_packages(words):
    cache = mst.KvCache(2, 2, 64, 40, **words)
    other = ms.KvCache.allocate(2, 2, 64, 40, like=torch.zeros(1), **words)
    for tokens in (17, 1, 3):
        k, v, q = (torch.randn(2, tokens, heads, 64).bfloat16() for heads in (2, 2, 4))
        cache.append(k, v)
        other.append(k, v)
        assert torch.equal(cache.attend(q), ms.attention(q, cache=other, causal=True))
        out = torch.empty_like(q)
        assert cache.attend(q, out=out) is out and torch.equal(out, cache.attend(q))
    assert cache.lengths.tolist() == [21, 21] == other.lengths.tolist()
    cache.reset()
    assert cache.lengths.tolist() == [0, 0]


def test_a_cache_keeps_its_types_and_stays_out_of_state_dicts():
    cache = mst.KvCache(1, 2, 64, 32, recent=4)
    before = {name: value.dtype for name, value in cache.named_buffers()}
    cache.to(torch.float16)
    assert {name: value.dtype for name, value in cache.named_buffers()} == before
    assert cache.state_dict() == {}
    with pytest.raises(ValueError, match="max_tokens"):
        mst.KvCache(1, 2, 64, 0)
    with pytest.raises(ValueError, match="format"):
        mst.KvCache(1, 2, 64, 32, format="int4")


def every_call():
    q, k, v = torch.randn(1, 3, 4, 64), torch.randn(1, 3, 2, 64), torch.randn(1, 3, 2, 64)
    mask = (None, True, 0, 0.0, None, None, None, 0, 0, "storage")
    yield ops.attention, (q, k, v)
    yield ops.attention_out, (q, k, v, *mask, torch.empty_like(q))
    for words in ({}, {"page_size": 16, "recent": 4, "first": 2}):
        cache = mst.KvCache(1, 2, 64, 32, **words)
        yield ops.append_kv, (k, v, None, None, None, False, *cache._parts())
        cache.append(k, v)
        yield ops.cached_attention, (q, *cache._parts(), *mask)
        yield ops.cached_attention_out, (q, *cache._parts(), *mask, torch.empty_like(q))


def test_every_operator_passes_opcheck():
    checked = set()
    for op, arguments in every_call():
        torch.library.opcheck(op.default, arguments)
        checked.add(op.default._schema.name)
    every = {name for name in torch._C._dispatch_get_all_op_names() if name.startswith("microscale::")}
    assert checked == {name for name in every if "attention" in name or "append" in name}


class Layer(torch.nn.Module):
    def __init__(self, heads=4, kv_heads=2, d=64):
        super().__init__()
        self.heads, self.d = heads, d
        self.qkv = torch.nn.Linear(heads * d, (heads + 2 * kv_heads) * d, bias=False)
        self.out = torch.nn.Linear(heads * d, heads * d, bias=False)
        self.cache = mst.KvCache(2, kv_heads, d, 64, page_size=16, recent=4)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (-1, self.d)).split([self.heads, 2, 2], dim=2)
        self.cache.append(k, v)
        return self.out(self.cache.attend(q).flatten(2))


def test_decoding_compiled_is_eager():
    layer = Layer()
    mst.quantize_(layer)
    layer.requires_grad_(False)
    tokens = [torch.randn(2, n, 256) for n in (18, 1, 1, 1)]
    wanted = [layer(x) for x in tokens]
    layer.cache.reset()
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    for x, y in zip(tokens, wanted, strict=True):
        assert torch.equal(compiled(x), y)
    assert layer.cache.lengths.tolist() == [21, 21]
