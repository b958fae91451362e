"""microscale.torch.parallel: layers shared by two, three and four processes beside the whole ones."""

import pytest
import ranks
import torch
from torch import nn

import microscale.torch as mst
from microscale.torch.parallel import _shares

FORMATS = ("nvfp4", "mxfp4", "mxfp8_e4m3", "mxfp8_e5m2")


def equal_on_all(value):
    """Whether a tensor is bit for bit the same on every rank."""
    every = [torch.empty_like(value) for _ in range(torch.distributed.get_world_size())]
    torch.distributed.all_gather(every, value.contiguous())
    return all(torch.equal(one, value) for one in every)


def close(got, wanted):
    """Within what another order of an FP32 sum, and one rounding of the result, can change."""
    torch.testing.assert_close(got, wanted, rtol=2**-7 if got.dtype == torch.bfloat16 else 1e-5, atol=2e-5)


def whole_linear(format, n, k, bias=True):
    torch.manual_seed(3)
    linear = nn.Linear(k, n, bias)
    return mst.Linear.from_linear(linear, format)


# In each process


def columns_are_equal(format):
    import microscale.torch.parallel as mstp

    own = mstp.Ranks()
    whole = whole_linear(format, 208, 128)
    x = torch.randn(5, 128, generator=torch.Generator().manual_seed(1))
    gathered = mstp.ColumnParallelLinear.from_linear(whole, own, gather=True)
    assert torch.equal(gathered(x), whole(x))  # no sum is cut, so nothing may differ
    part = mstp.ColumnParallelLinear.from_linear(whole, own)
    start, end = part.span
    assert torch.equal(part(x), whole(x)[:, start:end])
    skeleton = mstp.ColumnParallelLinear(128, 208, format, mesh=own, gather=True)
    skeleton.load_state_dict(whole.state_dict())
    assert torch.equal(skeleton(x), whole(x))
    dense = nn.Linear(128, 50)
    dense.load_state_dict({k: v.clone().fill_(0.25) for k, v in dense.state_dict().items()})
    assert torch.equal(mstp.ColumnParallelLinear.from_linear(dense, own, gather=True)(x), dense(x))
    return True


def rows_are_equal(format, dtype):
    import microscale.torch.parallel as mstp

    own = mstp.Ranks()
    whole = whole_linear(format, 96, 384).to(dtype)
    shared = mstp.RowParallelLinear.from_linear(whole, own)
    start, end = shared.span
    x = torch.randn(3, 5, 384, generator=torch.Generator().manual_seed(1)).to(dtype)
    y = shared(x[..., start:end])
    close(y, whole(x))
    assert equal_on_all(y) and y.dtype == dtype
    skeleton = mstp.RowParallelLinear(384, 96, format, mesh=own, dtype=dtype)
    skeleton.load_state_dict(whole.state_dict())
    assert torch.equal(skeleton(x[..., start:end]), y)
    # Sums of small whole numbers are exact in any order.
    numbers = torch.randint(-3, 4, (96, 384), generator=torch.Generator().manual_seed(2)).float()
    exact = mst.Linear.from_linear(_linear_of(numbers), format)
    shared = mstp.RowParallelLinear.from_linear(exact, own)
    x = torch.randint(-4, 5, (7, 384), generator=torch.Generator().manual_seed(4)).to(dtype)
    if format != "nvfp4":  # whose global scale is no power of two
        assert torch.equal(shared(x[:, start:end]), exact(x))
    dense = nn.Linear(384, 96).to(dtype)
    dense.load_state_dict({k: torch.full_like(v, 0.5) for k, v in dense.state_dict().items()})
    assert torch.equal(mstp.RowParallelLinear.from_linear(dense, own)(x[:, start:end]), dense(x))
    return True


def _linear_of(weight):
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    linear.weight = nn.Parameter(weight)
    return linear


def mlp_and_experts_are_equal(format):
    import microscale.torch.parallel as mstp

    own = mstp.Ranks()
    torch.manual_seed(5)
    layers = [nn.Linear(64, 320), nn.Linear(64, 320), nn.Linear(320, 64)]
    whole = mst.GatedMlp.from_linears(*layers, format)
    x = torch.randn(6, 64)
    y = mstp.ParallelGatedMlp.from_mlp(whole, own)(x)
    close(y, whole(x))
    assert equal_on_all(y)
    gate, up, down = torch.randn(6, 192, 64), torch.randn(6, 192, 64), torch.randn(6, 64, 192)
    mixture = mst.Experts.from_weights(gate / 8, up / 8, down / 8, format)
    indices = torch.rand(9, 6).topk(2).indices
    weights = torch.rand(9, 2)
    x = torch.randn(9, 64)
    wanted = mixture(x, indices, weights)
    for by in ("inner", "experts", None):
        shared = mstp.ParallelExperts(mixture, own, by=by)
        y = shared(x, indices, weights)
        close(y, wanted)
        assert equal_on_all(y)
    assert shared.by == "inner"
    return True


def refusals():
    import microscale.torch.parallel as mstp

    own = mstp.Ranks()
    cases = [
        (lambda: mstp.RowParallelLinear(48, 64, mesh=own), "in_features: 48 columns are 3 blocks of 16"),
        (lambda: mstp.ColumnParallelLinear(64, 3, mesh=own), "3 rows cannot be shared by 4 ranks"),
        (lambda: mstp.RowParallelLinear.from_linear(whole_linear("mxfp4", 8, 96), own, name="a.down"),
         "a.down: 96 columns are 3 blocks of 32"),
        (lambda: mstp.RowParallelLinear.from_linear(whole_linear("nvfp4", 8, 96), own, span=(0, 24),
        name="o"),
         "o: columns 0 to 24 are no whole blocks of 16"),
        (lambda: mstp.parallelize(nn.Linear(4, 4), own), "none for the architecture 'None'"),
        (lambda: mstp.parallelize(nn.Sequential(), own, {"0": "row"}), "style 'row'"),
        (lambda: mstp.parallelize(nn.Sequential(), own, {"a.*": "rows"}), "a name like a"),
        (lambda: mstp.parallelize(nn.Sequential(nn.ReLU()), own, {"0": "rows"}), "0: it is a ReLU"),
        (lambda: mstp.ParallelExperts(mst.Experts(2, 32, 32), own, by="experts"), "2 experts cannot"),
        (lambda: mstp.Ranks(reduce="mpi"), "no 'mpi'"),
        (lambda: mstp.Ranks(own.size), "expected a DeviceMesh"),
    ]  # fmt: skip
    for call, words in cases:
        with pytest.raises((ValueError, TypeError), match=words):
            call()
    layer = mstp.RowParallelLinear(256, 8, mesh=own)
    x = torch.ones(1, 64, requires_grad=True)
    with torch.enable_grad(), pytest.raises(NotImplementedError, match="no_grad"):
        layer(x)
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    with pytest.raises(ValueError, match="2 dimensions"):
        mstp.Ranks(mesh)
    assert mstp.Ranks(mesh["tp"]).size == 2
    return True


def by_a_plan():
    """A plan of one's own, and compiled code."""
    import microscale.torch.parallel as mstp

    torch.manual_seed(6)
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64), nn.Linear(64, 100))
    mst.quantize_(model)
    x = torch.randn(4, 64)
    wanted = model(x)
    done = mstp.parallelize(model, None, {"0": "columns", "2": "rows", "3": "gathered"})
    assert "1 columns" in str(done) and done.shared["2"] == "rows"
    y = model(x)
    close(y, wanted)
    assert equal_on_all(y)
    torch.testing.assert_close(torch.compile(model, backend="aot_eager")(x), y)
    return True


# Here. Processes take longer to start than to compute, so those of a size do all.


def all_layers():
    for format in FORMATS:
        columns_are_equal(format)
        for dtype in (torch.float32, torch.bfloat16):
            rows_are_equal(format, dtype)
        mlp_and_experts_are_equal(format)
    return True


def three_ranks():
    mlp_and_experts_are_equal("nvfp4")
    by_a_plan()
    return True


def four_ranks():
    all_layers()
    refusals()
    return True


@pytest.mark.parametrize("size, work", [(2, all_layers), (3, three_ranks), (4, four_ranks)])
def test_layers_equal_the_whole_ones_and_refuse_by_name(size, work):
    assert all(ranks.run(size, work))


def test_without_processes():
    from microscale.torch.parallel import Ranks

    with pytest.raises(ValueError, match="init_process_group"):
        Ranks()


def test_shares_are_whole_and_complete():
    for size in (64, 96, 192, 2880, 14336, 50):
        for count in (1, 2, 3, 4, 8):
            spans = [_shares.share_of(size, count, rank, "") for rank in range(count)]
            assert [a for a, _ in spans] == [0, *(b for _, b in spans[:-1])] and spans[-1][1] == size
            unit = _shares.unit_of(size, count)
            assert all(a % unit == 0 and b > a for a, b in spans)


@pytest.mark.parametrize("heads, kv", [(8, 2), (6, 2), (64, 8), (8, 8), (12, 4), (16, 1)])
def test_heads_of_ranks(heads, kv):
    """Each query head finds, at its place, the head of keys that it had."""
    for count in range(1, heads + 1):
        seen = []
        for rank in range(count):
            own, own_kv = _shares.heads_of(heads, kv, count, rank, "")
            assert len(own) % len(own_kv) == 0
            each = len(own) // len(own_kv)
            assert all(own_kv[i // each] == head // (heads // kv) for i, head in enumerate(own))
            if count <= kv:
                assert each == heads // kv  # none is there twice
            seen += own
        assert seen == list(range(heads))
    with pytest.raises(ValueError, match="cannot be shared"):
        _shares.heads_of(heads, kv, heads + 1, 0, "")
