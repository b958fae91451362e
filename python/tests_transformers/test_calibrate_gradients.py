"""calibrate(gradients=True): statistics whose tokens are weighted by gradients at the layers' outputs."""

import json
import os

import pytest
import torch
from safetensors import safe_open
from torch.nn import functional
from transformers import AutoModelForCausalLM
from transformers.models.llama.modeling_llama import LlamaRMSNorm

import microscale as ms
from microscale.transformers import _calibration_work, _gradients

WORDS = dict(tokens=64, sequence=16)
IDS = torch.randint(3, 256, (64,), generator=torch.Generator().manual_seed(5)).tolist()


def read(path):
    with safe_open(path, "pt") as file:
        about = file.metadata()
        return {name: file.get_tensor(name) for name in file.keys()}, about


def whole_model(path, monkeypatch, seed):
    """(inputs, gradient at outputs) of each product with a matrix of the blocks, by where the matrix is."""
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, experts_implementation="eager")
    seen, inner = {}, functional.linear

    def linear(x, weight, bias=None):
        result = inner(x, weight, bias)
        if result.requires_grad:
            result.retain_grad()
            seen.setdefault(weight.data_ptr(), []).append((x.detach().reshape(-1, x.shape[-1]), result))
        return result

    monkeypatch.setattr(functional, "linear", linear)
    drawn = torch.rand(4, 16, generator=torch.Generator().manual_seed(seed))
    with torch.enable_grad():
        logs = model(input_ids=torch.tensor(IDS).view(4, 16)).logits.log_softmax(-1)
        words = (logs.detach().exp().cumsum(-1) < drawn[..., None]).sum(-1)
        (-logs.gather(-1, words[..., None]).sum()).backward()
    monkeypatch.setattr(functional, "linear", inner)
    return model, {
        at: (
            torch.cat([x for x, _ in parts]).double(),
            torch.cat([y.grad.reshape(len(x), -1) for x, y in parts]).double(),
        )
        for at, parts in seen.items()
    }


@pytest.mark.parametrize("name", ["llama", "qwen3_moe", "gemma3_text"])
def test_what_the_whole_model_gives(models, name, monkeypatch, tmp_path):
    monkeypatch.setitem(_gradients.ROWS, "cpu", 32)  # two sequences of the four at a time
    monkeypatch.setattr(_gradients, "_LOGITS", 16 * 256)  # one
    path = models.path(name, "dense")
    made = ms.calibrate(path, IDS, out=tmp_path / "s", hessian=True, gradients=True, seed=3, **WORDS)
    assert "weighted by gradients" in str(made)
    found, about = read(tmp_path / "s")
    assert about["gradients"] == "squares"
    tokens, shares = json.loads(about["tokens"]), json.loads(about["shares"])
    model, seen = whole_model(path, monkeypatch, 3)
    members = {owner: [owner] for owner in tokens}
    for module, owner in shares.items():
        members[owner].append(module)

    def weight(module):
        if ".experts." in module:
            inside, number, word = module.rsplit(".", 2)
            stacked = model.get_submodule(inside)
            place = stacked.down_proj if word == "down_proj" else stacked.gate_up_proj
            return place[int(number)]
        return model.get_submodule(module).weight

    sums = {}
    for owner, every in members.items():
        pairs = [seen[at] for at in dict.fromkeys(weight(one).data_ptr() for one in every) if at in seen]
        if pairs:
            squares = sum((g**2).sum(1) for _, g in pairs) / sum(g.shape[1] for _, g in pairs)
            x = pairs[0][0]
            sums[owner] = (x.T @ (x * squares[:, None]), len(x))
    for owner in tokens:
        columns = len(found[owner])
        total, count = sums.get(owner, (torch.zeros(columns, columns, dtype=torch.double), 0))
        if ".experts." in owner:
            word = owner.rsplit(".", 1)[1]
            layer = owner.partition(".experts.")[0]
            every = [s for o, s in sums.items() if o.startswith(layer + ".experts.") and o.endswith(word)]
            share = 2 * columns / sum(n for _, n in every)
            wanted = (total + share * sum(h for h, _ in every)) / (count + 2 * columns)
        else:
            wanted = total / count
        near = dict(rtol=2e-3, atol=2e-5 * float(wanted.abs().max()))
        torch.testing.assert_close(found[owner + ".hessian"].double(), wanted, **near)
        torch.testing.assert_close(found[owner].double(), wanted.diagonal(), **near)
    plain = ms.calibrate(path, IDS, out=tmp_path / "plain", **WORDS)
    assert plain.shares == made.shares
    for name, tensor in read(tmp_path / "plain")[0].items():
        if name.endswith((".mean", ".amax")):
            torch.testing.assert_close(found[name], tensor)


@pytest.mark.parametrize("calls", [1, 3, 11, 13])
def test_an_interrupted_run_goes_on_to_the_same_bytes(models, tmp_path, monkeypatch, calls):
    monkeypatch.setattr(_calibration_work, "SAVE_SECONDS", 0)
    words = dict(hessian=True, gradients=True, **WORDS)
    path = models.path("llama", "dense")
    every = []
    ms.calibrate(path, IDS, out=tmp_path / "whole", progress=lambda *news: every.append(news), **words)
    assert every[-1][0] == every[-1][1] and [one[0] for one in every] == sorted(one[0] for one in every)
    left = min(calls, len(every))

    def stop(*_):
        nonlocal left
        left -= 1
        return left > 0

    with pytest.raises(ms.Error, match="stopped"):
        ms.calibrate(path, IDS, out=tmp_path / "cut", progress=stop, **words)
    ms.calibrate(path, IDS, out=tmp_path / "cut", resume=True, **words)
    assert (tmp_path / "cut").read_bytes() == (tmp_path / "whole").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["cut", "whole"]


def test_another_seed_draws_other_words(models, tmp_path):
    path = models.path("llama", "dense")
    for seed in (0, 1):
        ms.calibrate(path, IDS, out=tmp_path / str(seed), gradients=True, seed=seed, **WORDS)
    one, other = (read(tmp_path / str(seed))[0] for seed in (0, 1))
    name = "model.layers.0.self_attn.q_proj"
    assert not torch.equal(one[name], other[name])
    assert torch.equal(one[name + ".amax"], other[name + ".amax"])


def test_a_model_without_gradients_is_calibrated_without(models, tmp_path, monkeypatch):
    class Cut(torch.autograd.Function):
        """The identity, without a formula for going back."""

        @staticmethod
        def forward(context, x):
            return x.clone()

    path = models.path("llama", "dense")
    ms.calibrate(path, IDS, out=tmp_path / "plain", hessian=True, gradients=False, **WORDS)
    inner = LlamaRMSNorm.forward
    monkeypatch.setattr(LlamaRMSNorm, "forward", lambda self, x: Cut.apply(inner(self, x)))
    made = ms.calibrate(path, IDS, out=tmp_path / "s", hessian=True, **WORDS)
    assert not made.gradients and "not weighted by gradients: " in made.notes[0]
    assert "what follows its blocks has no gradient" in made.notes[0]
    assert (tmp_path / "s").read_bytes() == (tmp_path / "plain").read_bytes()
    with pytest.raises(NotImplementedError, match="what follows its blocks has no gradient"):
        ms.calibrate(path, IDS, out=tmp_path / "other", gradients=True, **WORDS)
    assert sorted(os.listdir(tmp_path)) == ["plain", "s"]
