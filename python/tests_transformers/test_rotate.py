"""rotate: the same words, Hessians as those of a calibration of the rotated model; what is refused."""

import json
import shutil
import subprocess
import sys

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import microscale as ms
from microscale._rotate_command import command
from microscale.transformers._rotation_plan import hadamard

IDS = torch.randint(3, 256, (4 * 32,), generator=torch.Generator().manual_seed(3)).tolist()
ROTATED = ("llama", "qwen2", "qwen3", "mistral", "qwen3_moe", "mixtral", "phi3", "granite", "smollm3")


@pytest.fixture(scope="session")
def uneven(models, tmp_path_factory):
    """Models of F32, whose norms have weights far from 1, and biases that are not 0."""
    folder = tmp_path_factory.mktemp("uneven")

    def path(name):
        made = folder / name
        if not made.exists():
            shutil.copytree(models.path(name, "dense"), made)
            weights = load_file(made / "model.safetensors")
            drawn = torch.Generator().manual_seed(5)
            for key in weights:
                weights[key] = weights[key].float()
                if key.endswith("norm.weight") or key.endswith("bias"):
                    weights[key] = torch.rand(weights[key].shape, generator=drawn) + 0.25
            save_file(weights, made / "model.safetensors", {"format": "pt"})
        return made

    return path


def logits(path):
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    return model(torch.tensor([IDS])).logits


@pytest.mark.parametrize("name", ROTATED)
def test_says_the_same(name, uneven, tmp_path):
    made = ms.rotate(uneven(name), tmp_path / "r")
    assert made.divergence < 1e-6 and made.tensors > 10
    before, after = logits(uneven(name)), logits(tmp_path / "r")
    assert (after - before).abs().max() < 2e-4 * before.abs().max()
    with safe_open(tmp_path / "r" / "model.safetensors", "pt") as file:
        for key in file.keys():
            if key.endswith("layernorm.weight") or key == "model.norm.weight":
                assert (file.get_tensor(key) == 1).all()


def test_hadamard():
    assert torch.equal(hadamard(), hadamard().T)
    assert (hadamard() @ hadamard() - torch.eye(32)).abs().max() < 1e-14


def test_hessians_are_those_of_the_rotated_model(uneven, tmp_path):
    words = dict(hessian=True, tokens=128, sequence=32, device="cpu")
    ms.calibrate(uneven("llama"), IDS, out=tmp_path / "s", **words)
    made = ms.rotate(uneven("llama"), tmp_path / "r", statistics=tmp_path / "s", shrink=0.0)
    ms.calibrate(tmp_path / "r", IDS, out=tmp_path / "t", **words)
    turned, direct = load_file(made.statistics), load_file(tmp_path / "t")
    hessians = [name for name in turned if name.endswith(".hessian")]
    assert len(hessians) == 8  # q, o, gate and down of two layers
    for name in hessians:
        assert (turned[name] - direct[name]).abs().max() < 1e-4 * direct[name].abs().max(), name
        module = name.removesuffix(".hessian")
        assert torch.equal(turned[module], turned[name].diagonal())


def test_hessians_shrink_before_they_are_turned(uneven, tmp_path):
    ms.calibrate(uneven("llama"), IDS, out=tmp_path / "s", hessian=True, tokens=128, sequence=32)
    ms.rotate(uneven("llama"), tmp_path / "r", statistics=tmp_path / "s", shrink=1.0)
    made = load_file(tmp_path / "r.statistics.safetensors")
    before = load_file(tmp_path / "s")
    name = "model.layers.0.self_attn.o_proj"
    h = hadamard()
    for block in range(2):
        cut = slice(32 * block, 32 * block + 32)
        wanted = h @ before[name][cut].double().diag() @ h
        assert (made[name + ".hessian"][cut, cut] - wanted).abs().max() < 1e-6 * wanted.abs().max()
    assert (made[name + ".hessian"][:32, 32:64] == 0).all()
    # quantize shrinks them no more
    words = dict(format="mxfp4", importance=tmp_path / "r.statistics.safetensors", method="gptq")
    ms.quantize_model(tmp_path / "r", tmp_path / "q", **words)
    ms.quantize_model(tmp_path / "r", tmp_path / "p", shrink=0.0, **words)
    ms.quantize_model(tmp_path / "r", tmp_path / "o", shrink=0.3, **words)
    every = [(tmp_path / one / "model.safetensors").read_bytes() for one in "qpo"]
    assert every[0] == every[1] != every[2]


def test_tied_and_in_shards(uneven, tmp_path):
    shutil.copytree(uneven("llama"), tmp_path / "m")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "m", dtype=torch.float32)
    model.config.tie_word_embeddings = True
    model.tie_weights()
    shutil.rmtree(tmp_path / "m")
    model.save_pretrained(tmp_path / "m", max_shard_size="300KB")
    assert len(list((tmp_path / "m").glob("*.safetensors"))) > 1
    ms.rotate(tmp_path / "m", tmp_path / "r")
    before, after = logits(tmp_path / "m"), logits(tmp_path / "r")
    assert (after - before).abs().max() < 2e-4 * before.abs().max()
    assert not json.loads((tmp_path / "r" / "config.json").read_text())["tie_word_embeddings"]


@pytest.mark.parametrize(
    "name, why",
    [("gemma3_text", "its norms"), ("gpt_oss", "experts lie in MXFP4"), ("olmo2", "come after attention")],
)
def test_refuses_what_lets_no_rotation_be_merged(name, why, models, tmp_path):
    with pytest.raises(ValueError, match=why):
        ms.rotate(models.path(name, "dense"), tmp_path / "r")
    assert list(tmp_path.iterdir()) == []


def test_refusals(uneven, models, tmp_path):
    with pytest.raises(ValueError, match="dequantize it first"):
        ms.rotate(models.path("llama", "packed"), tmp_path / "r")
    with pytest.raises(ValueError, match="no folder of a model"):
        ms.rotate(tmp_path / "absent", tmp_path / "r")
    ms.calibrate(uneven("llama"), IDS, out=tmp_path / "s", tokens=64, sequence=32)
    with pytest.raises(ValueError, match="no Hessians"):
        ms.rotate(uneven("llama"), tmp_path / "r", statistics=tmp_path / "s")
    with pytest.raises(ValueError, match="no file of statistics"):
        ms.rotate(uneven("llama"), tmp_path / "r", statistics=uneven("llama") / "config.json")
    with pytest.raises(ValueError, match="from 0 to 1"):
        ms.rotate(uneven("llama"), tmp_path / "r", shrink=2.0)
    shutil.copytree(uneven("llama"), tmp_path / "m")
    weights = load_file(tmp_path / "m" / "model.safetensors")
    weights["model.layers.0.self_attn.gate.weight"] = torch.ones(4)
    save_file(weights, tmp_path / "m" / "model.safetensors")
    with pytest.raises(ValueError, match="self_attn.gate.weight does"):
        ms.rotate(tmp_path / "m", tmp_path / "r")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "s"]
    (tmp_path / "r").mkdir()
    with pytest.raises(ValueError, match="it exists"):
        ms.rotate(uneven("llama"), tmp_path / "r")


def test_a_model_that_is_another_one_when_rotated_is_refused(uneven, tmp_path, monkeypatch):
    from microscale.transformers import _rotation_plan

    monkeypatch.setattr(_rotation_plan.Plan, "gamma_before", lambda *_: torch.ones((), dtype=torch.float64))
    with pytest.raises(ValueError, match="rotated it has other words"):
        ms.rotate(uneven("llama"), tmp_path / "r")
    assert list(tmp_path.iterdir()) == []


def test_command(uneven, tmp_path, capfd):
    ms.calibrate(uneven("llama"), IDS, out=tmp_path / "s", hessian=True, tokens=128, sequence=32)
    words = [str(uneven("llama")), "-o", str(tmp_path / "r"), "--statistics", str(tmp_path / "s")]
    assert command(words) == 0
    first, second = capfd.readouterr().out.splitlines()
    assert "rotated by blocks of 32" in first
    done = subprocess.run(
        [sys.executable, "-m", "microscale", *second.split()[2:4], "-o", str(tmp_path / "q")]
        + second.split()[6:],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert command(words) == 3 and "it exists" in capfd.readouterr().err
    assert command([str(tmp_path), "-o", str(tmp_path / "x"), "--json"]) == 3
