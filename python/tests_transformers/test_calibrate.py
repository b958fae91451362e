"""calibrate: against hooks on whole models, interrupted, on inputs that are hardly any; its refusals."""

import json
import os
import shutil

import numpy as np
import pytest
import torch
from safetensors import safe_open
from test_evaluate import ARCHITECTURES
from torch import nn
from transformers import AutoModelForCausalLM

import microscale as ms
from microscale.transformers import _calibration_work, _side
from microscale.transformers._statistics import Sums

IDS = torch.randint(3, 256, (4 * 16,), generator=torch.Generator().manual_seed(7)).tolist()
WORDS = dict(tokens=64, sequence=16, gradients=False)


def read(path):
    with safe_open(path, "pt") as file:
        found = {name: file.get_tensor(name) for name in file.keys()}
        about = file.metadata()
    return found, json.loads(about["tokens"]), json.loads(about["shares"])


def file_name(architecture, name):
    """What a checkpoint calls an expert's projection."""
    if architecture != "mixtral":
        return name
    for one, other in (
        ("mlp.", "block_sparse_moe."),
        ("gate_proj", "w1"),
        ("up_proj", "w3"),
        ("down_proj", "w2"),
    ):
        name = name.replace(one, other)
    return name


def direct(path, architecture):
    """Rows that came to each layer of the whole model, and at the place of experts all that came there."""
    model = AutoModelForCausalLM.from_pretrained(
        path, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    rows, pools = {}, {}

    def linear(name):
        return lambda module, args: rows.setdefault(name, []).append(args[0].flatten(0, -2))

    def experts(name):
        def before(module, args):
            hidden, index, _ = args
            pools.setdefault(name + ".gate_proj", []).append(hidden)
            for e in range(module.down_proj.shape[0]):
                x = hidden[(index == e).any(-1)]
                if architecture == "gpt_oss":
                    both = x @ module.gate_up_proj[e] + module.gate_up_proj_bias[e]
                    inner = module._apply_gate(both)
                else:
                    gate, up = (x @ module.gate_up_proj[e].T).chunk(2, -1)
                    inner = module.act_fn(gate) * up
                rows.setdefault(file_name(architecture, f"{name}.{e}.gate_proj"), []).append(x)
                rows.setdefault(file_name(architecture, f"{name}.{e}.down_proj"), []).append(inner)
                pools.setdefault(name + ".down_proj", []).append(inner)

        return before

    for name, module in model.model.layers.named_modules(prefix="model.layers"):
        if isinstance(module, nn.Linear):
            module.register_forward_pre_hook(linear(name))
        elif name.endswith("experts"):
            module.register_forward_pre_hook(experts(name))
    for one in torch.tensor(IDS).view(4, 16):
        model(one[None])
    return [{name: torch.cat(parts).double() for name, parts in every.items()} for every in (rows, pools)]


def pool_of(name, pools):
    word = "down_proj" if name.endswith(("down_proj", "w2")) else "gate_proj"
    layer = name.partition(".experts.")[0].replace("block_sparse_moe", "mlp")
    return pools[f"{layer}.experts.{word}"] if ".experts." in name else None


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_what_hooks_on_the_whole_model_find(models, name, monkeypatch, tmp_path):
    monkeypatch.setitem(_side.ROWS, "cpu", 32)  # two sequences of the four at a time
    path = models.path(name, "dense")
    made = ms.calibrate(path, IDS, out=tmp_path / "s.safetensors", hessian=True, **WORDS)
    found, tokens, shares = read(tmp_path / "s.safetensors")
    rows, pools = direct(path, name)
    experts = name in ("qwen3_moe", "mixtral", "gpt_oss")
    ups = {file_name(name, f"model.layers.{i}.mlp.experts.{e}.up_proj") for i in (0, 1) for e in range(4)}
    assert set(tokens) | set(shares) == set(rows) | (ups if experts else set())
    assert made.layers == len(tokens) + len(shares) and not made.unreached and not made.dead
    fused = name == "phi3"  # and all else has q, k and v, gate and up
    assert all(("k_proj" in one or "v_proj" in one or "up_proj" in one or "w3" in one) for one in shares)
    assert len(shares) == (0 if fused else 4 + len(ups) if experts else 6)
    for module, count in tokens.items():
        x, pool = rows[module], pool_of(module, pools)
        assert count == len(x)
        square, mean, hessian = (x**2).sum(0), x.sum(0), x.T @ x
        if pool is not None:
            weight = 2 * x.shape[1]
            share = weight / len(pool)
            square = (square + share * (pool**2).sum(0)) / (count + weight)
            mean = (mean + share * pool.sum(0)) / (count + weight)
            hessian = (hessian + share * pool.T @ pool) / (count + weight)
        else:
            square, mean, hessian = square / count, mean / count, hessian / count
        largest = x.abs().amax(0) if count else pool.abs().amax(0)
        near = dict(rtol=1e-3, atol=1e-5 * float(hessian.abs().max()))
        torch.testing.assert_close(found[module].double(), square, **near)
        torch.testing.assert_close(found[module + ".mean"].double(), mean, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(found[module + ".amax"].double(), largest, rtol=1e-3, atol=1e-5)
        got = found[module + ".hessian"]
        torch.testing.assert_close(got.double(), hessian, **near)
        assert got.dtype == torch.float32 and torch.equal(got, got.T)
    for module, owner in shares.items():
        assert torch.equal(found[module], found[owner])
        if module in rows:
            torch.testing.assert_close(rows[module], rows[owner])
    assert len(found) == 4 * len(tokens) + len(shares)


@pytest.mark.parametrize("name", ["llama", "qwen3_moe"])
def test_hessians_that_have_no_room_take_more_runs(models, name, tmp_path, monkeypatch):
    path, runs = models.path(name, "dense"), []
    load = _side.BlockWeights.load
    monkeypatch.setattr(
        _side.BlockWeights, "load", lambda self, chosen: (runs.append(1), load(self, chosen))[1]
    )
    counts = []
    for i, most in enumerate((1 << 30, 340000, 1)):
        runs.clear()
        ms.calibrate(path, IDS, out=tmp_path / f"{i}", hessian=True, max_memory=most, **WORDS)
        counts.append(len(runs))
    assert counts[0] < counts[1] < counts[2]
    wanted = read(tmp_path / "0")
    for i in (1, 2):
        got = read(tmp_path / f"{i}")
        assert got[1:] == wanted[1:] and got[0].keys() == wanted[0].keys()
        assert all(torch.equal(got[0][name], wanted[0][name]) for name in wanted[0])


@pytest.mark.parametrize("calls", [1, 3])
def test_an_interrupted_run_goes_on_to_the_same_bytes(models, tmp_path, monkeypatch, calls):
    monkeypatch.setattr(_calibration_work, "SAVE_SECONDS", 0)
    monkeypatch.setitem(_side.ROWS, "cpu", 32)
    path = models.path("qwen3_moe", "dense")
    ms.calibrate(path, IDS, out=tmp_path / "whole", hessian=True, **WORDS)
    left = calls

    def stop(*_):
        nonlocal left
        left -= 1
        return left > 0

    with pytest.raises(ms.Error, match="stopped"):
        ms.calibrate(path, IDS, out=tmp_path / "cut", hessian=True, progress=stop, **WORDS)
    assert sorted(os.listdir(tmp_path)) == ["cut.part", "whole"]
    assert (tmp_path / "cut.part/state.safetensors").exists() == (calls == 3)
    with pytest.raises(ValueError, match="interrupted calibration left it; pass resume=True"):
        ms.calibrate(path, IDS, out=tmp_path / "cut", hessian=True, **WORDS)
    with pytest.raises(ValueError, match="begun with another tokens"):
        ms.calibrate(path, IDS[::-1], out=tmp_path / "cut", hessian=True, resume=True, **WORDS)
    seen = []
    ms.calibrate(
        path, IDS, out=tmp_path / "cut", hessian=True, resume=True, progress=lambda *news: seen.append(news),
        **WORDS,
    )  # fmt: skip
    assert (tmp_path / "cut").read_bytes() == (tmp_path / "whole").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["cut", "whole"]
    assert (seen[0][0] >= seen[0][1] / 2) == (calls == 3) and seen[-1][0] == seen[-1][1]


def test_one_token_and_experts_that_none_came_to(models, tmp_path):
    path = models.path("mixtral", "dense")
    made = ms.calibrate(path, [9], out=tmp_path / "s", hessian=True, gradients=False)
    found, tokens, shares = read(tmp_path / "s")
    assert made.tokens == 1 and "gives 1 tokens, of 65,536" in made.notes[0]
    base = "model.layers.1.block_sparse_moe.experts."
    counts = [tokens[f"{base}{e}.w1"] for e in range(4)]
    assert sorted(counts) == [0, 0, 1, 1] and [tokens[f"{base}{e}.w2"] for e in range(4)] == counts
    assert made.few[base + "0.w1"] == counts[0] and "16 layers of experts saw fewer tokens" in made.notes[1]
    never, seen = (base + str(counts.index(count)) for count in (0, 1))
    both = found[seen + ".w1"], found[never + ".w1"]
    torch.testing.assert_close(*both)  # there is but one token in the layer
    x = found[never + ".w1.mean"]
    torch.testing.assert_close(found[never + ".w1.hessian"], x[:, None] * x[None])
    assert found[never + ".w2.amax"].max() > 0 and shares[never + ".w3"] == never + ".w1"


def test_experts_whose_code_cannot_be_watched_are_named(models, tmp_path):
    def at_once(self, hidden, index, weights):
        share = torch.zeros(len(hidden), self.num_experts).scatter(1, index, weights)
        gate, up = torch.einsum("tk,enk->etn", hidden, self.gate_up_proj).chunk(2, -1)
        every = torch.einsum("etn,ekn->tek", self.act_fn(gate) * up, self.down_proj)
        return (every * share[..., None]).sum(1)

    model = AutoModelForCausalLM.from_pretrained(models.path("mixtral", "dense"), dtype=torch.float32)
    for layer in model.model.layers:
        layer.mlp.experts.forward = at_once.__get__(layer.mlp.experts)
    made = ms.calibrate(model, IDS, out=tmp_path / "s", hessian=True, **WORDS)
    first = "model.layers.0.block_sparse_moe.experts.0.w1"
    assert len(made.unseen) == 24 and made.unseen[0] == first and not made.unreached and not made.few
    assert f"the code of 24 layers of experts, the first {first}" in made.notes[0]
    found, tokens, _ = read(tmp_path / "s")
    assert len(tokens) == 4 and not any("experts" in name for name in found)


def changed(models, folder, change):
    model = AutoModelForCausalLM.from_pretrained(models.path("llama", "dense"), dtype=torch.float32)
    change(model.model.layers[1])
    model.save_pretrained(folder)
    return folder


def test_dead_columns_are_counted(models, tmp_path):
    def change(layer):
        layer.post_attention_layernorm.weight[[3, 77]] = 0

    made = ms.calibrate(changed(models, tmp_path / "m", change), IDS, out=tmp_path / "s", **WORDS)
    gate = "model.layers.1.mlp.gate_proj"
    assert (
        made.dead == {gate: 2}
        and f"2 columns of 1 layers had 0 for every token (2 of {gate})" in made.notes[0]
    )
    found = read(tmp_path / "s")[0]
    assert found[gate].eq(0).nonzero().flatten().tolist() == [3, 77] and found[gate + ".amax"][3] == 0


def test_nan_is_named_and_nothing_is_left(models, tmp_path):
    def change(layer):
        layer.mlp.up_proj.weight[5, 5] = float("nan")

    folder = changed(models, tmp_path / "m", change)
    with pytest.raises(ValueError, match=r"model.layers.1.mlp.down_proj: NaN or Inf in its inputs"):
        ms.calibrate(folder, IDS, out=tmp_path / "s", **WORDS)
    assert os.listdir(tmp_path) == ["m"]


def test_quantized_folders_and_models_in_memory(models, tmp_path):
    plain = models.folder / "llama-nvfp4-f32"
    if not plain.exists():
        ms.dequantize_model(models.path("llama", "packed"), plain, "f32")
    in_memory = AutoModelForCausalLM.from_pretrained(plain, dtype=torch.float32)
    every = (plain, models.path("llama", "packed"), in_memory)
    for i, model in enumerate(every):
        ms.calibrate(model, IDS, out=tmp_path / f"{i}", **WORDS)
    wanted = read(tmp_path / "0")
    for i in (1, 2):
        got = read(tmp_path / f"{i}")
        assert got[1:] == wanted[1:]
        for name, tensor in wanted[0].items():
            torch.testing.assert_close(got[0][name], tensor, rtol=1e-4, atol=1e-6)
    assert not any("forward" in vars(module) or module._forward_pre_hooks for module in in_memory.modules())


def test_without_a_tokenizer_tokens_are_drawn(models, tmp_path):
    path = models.path("llama", "dense")
    made = ms.calibrate(path, out=tmp_path / "0", tokens=64, sequence=16)
    assert made.text == "random token ids, seed 0" and "drawn at random" in made.notes[0]
    ms.calibrate(path, out=tmp_path / "1", random=True, tokens=64, sequence=16)
    ms.calibrate(path, out=tmp_path / "2", random=True, tokens=64, sequence=16, seed=1)
    first, second, third = ((tmp_path / name).read_bytes() for name in "012")
    assert first == second != third


def test_the_search_follows_it(models, tmp_path):
    """The error that the statistics weigh is lower with them, and the plain one higher."""
    folder = models.path("llama", "dense")
    ms.calibrate(folder, IDS, out=tmp_path / "s", hessian=True, **WORDS)
    ms.quantize_model(folder, tmp_path / "with", format="nvfp4", importance=tmp_path / "s")
    module = "model.layers.1.mlp.down_proj"
    dense = models.load("llama", "dense").get_submodule(module).weight.float()
    hessian = read(tmp_path / "s")[0][module + ".hessian"]
    errors = []
    for path in (models.path("llama", "packed"), tmp_path / "with"):
        with ms.open_checkpoint(path) as file:
            delta = torch.from_numpy(np.array(file[module].dequantize("f32"))) - dense
        errors.append(((delta @ hessian * delta).sum().item(), (delta**2).sum().item()))
    assert errors[1][0] < errors[0][0] and errors[1][1] > errors[0][1]


def test_refusals(models, tmp_path):
    dense = models.path("llama", "dense")
    (tmp_path / "there").write_text("w3 w4")
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    for words, message in (
        (dict(text=IDS, out=tmp_path / "there"), "there: it exists"),
        (dict(text=str(tmp_path / "there")), "is the name of a file; pass Path"),
        (dict(text=tmp_path / "latin"), "is no UTF-8"),
        (dict(text=[]), "it has no tokens"),
        (dict(text=[1000] * 40), "from 1000 to 1000; .* has 256 words"),
        (dict(text="w3 w4"), "no tokenizer"),
        (dict(text=IDS, random=True), "pass one of both"),
        (dict(text=IDS, tokens=0), "tokens: 0"),
        (dict(text=IDS, tokens=1000, sequence=1000), "1000; .* has 512 positions"),
        (dict(text=IDS, dtype="int8"), "dtype: 'int8'"),
    ):
        with pytest.raises(ValueError, match=message):
            ms.calibrate(dense, **{"out": tmp_path / "s", **words})
    with pytest.raises(OSError, match="absent"):
        ms.calibrate(tmp_path / "absent", IDS, out=tmp_path / "s")
    shutil.copytree(dense, tmp_path / "m")
    config = json.loads((tmp_path / "m/config.json").read_text())
    (tmp_path / "m/config.json").write_text(json.dumps({**config, "model_type": "unheard"}))
    with pytest.raises(ValueError, match=r"m: transformers [\d.]+ knows no models of the type 'unheard'$"):
        ms.calibrate(tmp_path / "m", IDS, out=tmp_path / "s")
    assert sorted(os.listdir(tmp_path)) == ["latin", "m", "there"]


def test_products_of_bf16_numbers_are_summed_in_fp32():
    x = torch.randn(300, 64, generator=torch.Generator().manual_seed(1)).bfloat16()
    sums = Sums(64, x.device)
    sums.hold_products()
    sums.add_products(x)
    wanted = x.double().T @ x.double()
    assert (sums.products - wanted).abs().max() < 300 * 2**-24 * wanted.abs().max()
    assert torch.backends.mkldnn.matmul.fp32_precision != "bf16"
