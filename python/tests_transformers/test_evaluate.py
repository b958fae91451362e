"""evaluate: against whole models, block by block, of folders, files and models in memory; its refusals."""

import math
import os

import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

import microscale as ms
import microscale.transformers as mstf
from microscale.transformers import _side

IDS = torch.randint(3, 256, (5 * 32 + 7,), generator=torch.Generator().manual_seed(5)).tolist()
WORDS = dict(tokens=IDS, context=32)
# Windows, softcaps, sinks, experts one by one and stacked, fused projections, factors around the head.
ARCHITECTURES = ("llama", "mistral", "qwen2", "qwen3", "qwen3_moe", "mixtral", "gpt_oss", "gemma2",
                 "gemma3_text", "phi3", "granite", "olmo2")  # fmt: skip


def whole(path):
    """log p of every word at the scored places of every chunk, by transformers' own attention."""
    model = AutoModelForCausalLM.from_pretrained(
        path, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    ids = torch.tensor(IDS[: 5 * 32]).view(5, 32)
    logits = torch.cat([model(one[None]).logits for one in ids])
    return logits[:, 16:31].log_softmax(-1).flatten(0, 1), ids[:, 17:].flatten()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_block_by_block_gives_what_the_whole_gives(models, name, monkeypatch):
    monkeypatch.setitem(_side.ROWS, "cpu", 64)  # two chunks of the five at a time
    dense = models.path(name, "dense")
    other = models.folder / f"{name}-other"
    if not other.exists():
        model = models.load(name, "dense")
        for parameter in model.parameters():
            parameter.mul_(
                1 + 0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
            )
        model.save_pretrained(other)
    found = ms.evaluate(dense, other, chunks=None, **WORDS)
    (p, targets), (q, _) = whole(dense), whole(other)
    nll, other_nll = (-one.gather(1, targets[:, None]).mean().item() for one in (p, q))
    assert found.perplexity == pytest.approx(math.exp(nll), rel=2e-5)
    assert found.other_perplexity == pytest.approx(math.exp(other_nll), rel=2e-5)
    assert found.kl_mean == pytest.approx((p.exp() * (p - q)).sum(-1).mean().item(), rel=2e-3, abs=1e-7)
    assert found.kl_mean > 1e-5
    assert (found.chunks, found.context, found.scored, found.tokens) == (5, 32, 75, len(IDS))
    assert found.running_perplexity[-1] == pytest.approx(found.perplexity)
    assert not found.notes


@pytest.mark.parametrize("format", ["nvfp4", "mxfp4", "mxfp8"])
@pytest.mark.parametrize("name", ["llama", "qwen3_moe", "gpt_oss"])
def test_a_quantized_folder_is_its_dequantized_values(models, name, format):
    packed = models.path(name, "packed", format)
    plain = models.folder / f"{name}-{format}-f32"
    if not plain.exists():
        ms.dequantize_model(packed, plain, "f32")
    found = ms.evaluate(plain, packed, **WORDS)
    assert found.kl_max < 1e-6 and found.same_top == 1 and not found.notes
    assert ms.evaluate(models.path(name, "dense"), packed, **WORDS).kl_mean > 1e-6


def test_one_block_is_in_memory_at_a_time(models, monkeypatch):
    most = 0
    load = _side.BlockWeights.load

    def counted(self, chosen):
        nonlocal most
        load(self, chosen)
        resident = [any(not p.is_meta for p in layer.parameters()) for layer in self.model.model.layers]
        most = max(most, sum(resident))
        if any(resident):
            assert self.model.lm_head.weight.is_meta

    monkeypatch.setattr(_side.BlockWeights, "load", counted)
    ms.evaluate(models.path("llama", "packed"), **WORDS)
    assert most == 1


def test_other_containers_are_expanded_for_a_while(models, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "work"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "work").mkdir()
    ms.quantize_model(models.path("llama", "dense"), tmp_path / "mixed", use=[("*.mlp.*", "fp8")])
    found = ms.evaluate(models.path("llama", "dense"), tmp_path / "mixed", **WORDS)
    assert "dense in f32" in found.notes[0] and found.kl_mean > 0
    assert os.listdir(tmp_path / "work") == []


def test_models_in_memory(models):
    folder = models.path("llama", "packed")
    wanted = ms.evaluate(folder, **WORDS)
    model = AutoModelForCausalLM.from_pretrained(models.path("llama", "plain"), dtype=torch.float32)
    packed = models.load("llama", "packed")
    mstf.accelerate(packed)
    packed.train()
    found = ms.evaluate(model, packed, **WORDS)
    assert found.perplexity == pytest.approx(wanted.perplexity, rel=1e-3)
    assert found.kl_mean < 1e-3 and packed.training
    assert all("forward" not in vars(module) for module in packed.modules())
    assert packed(torch.tensor([IDS[:9]])).logits.shape == (1, 9, 256)


@pytest.fixture()
def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    vocabulary = {
        word: i for i, word in enumerate(["<pad>", "<s>", "</s>", *(f"w{i}" for i in range(3, 256))])
    }
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", pad_token="<pad>")


TEXT = " ".join(f"w{i}" for i in IDS)


def test_every_chunk_begins_as_the_models_texts_do(models, tokenizer, tmp_path):
    dense = models.path("llama", "dense")
    (tmp_path / "text").write_text(TEXT)
    found = ms.evaluate(dense, text=tmp_path / "text", tokenizer=tokenizer, context=32)
    assert found.tokens == len(IDS) + 1 and found.chunks == 5
    chunks = torch.tensor([1, *IDS][: 5 * 32]).view(5, 32)
    chunks[:, 0] = 1
    assert found.perplexity == ms.evaluate(dense, tokens=chunks.flatten().tolist(), context=32).perplexity


def test_the_tokenizer_of_the_folder(models, tokenizer, tmp_path):
    from tokenizers import pre_tokenizers

    for name in "ab":
        models.load("llama", "dense").save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
    assert ms.evaluate(tmp_path / "a", tmp_path / "b", text=TEXT, context=32).kl_max == 0
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.CharDelimiterSplit("w")
    tokenizer.save_pretrained(tmp_path / "b")
    with pytest.raises(ValueError, match="other tokens of the text"):
        ms.evaluate(tmp_path / "a", tmp_path / "b", text=TEXT, context=32)


def test_refusals(models, tmp_path):
    dense = models.path("llama", "dense")
    for words, message in (
        (dict(tokens=IDS[:20], context=32), "20 tokens; one chunk takes context=32"),
        (dict(text="w3"), "no tokenizer"),
        (dict(), "pass a text"),
        (dict(text="w", tokens=IDS), "pass a text"),
        (dict(tokens=IDS, dtype="int8"), "dtype: 'int8'"),
        (dict(tokens=IDS, context=2), "context: 2"),
        (dict(tokens=[1000] * 40, context=32), "from 1000 to 1000; .* has 256 words"),
    ):
        with pytest.raises(ValueError, match=message):
            ms.evaluate(dense, **words)
    with pytest.raises(TypeError, match="expected a model of transformers"):
        ms.evaluate(torch.nn.Linear(2, 2), **WORDS)
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=1,
                         vocab_size=300)  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(tmp_path / "wider")
    with pytest.raises(ValueError, match="has 300 words, .* 256"):
        ms.evaluate(dense, tmp_path / "wider", **WORDS)
    with pytest.raises(OSError, match="absent"):
        ms.evaluate(tmp_path / "absent", **WORDS)


def test_a_tensor_that_is_missing_is_named(models, tmp_path):
    from safetensors.torch import load_file, save_file

    models.load("llama", "dense").save_pretrained(tmp_path / "m")
    tensors = load_file(tmp_path / "m/model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, tmp_path / "m/model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match="no tensor for model.layers.1.mlp.up_proj.weight"):
        ms.evaluate(tmp_path / "m", **WORDS)


def test_progress_counts_to_the_end_and_can_stop(models):
    seen = []
    dense = models.path("llama", "dense")
    ms.evaluate(dense, models.path("llama", "packed"), progress=lambda *news: seen.append(news), **WORDS)
    done = [news[0] for news in seen]
    assert done == sorted(done) and done[-1] >= 0.999 * seen[-1][1]
    assert {news[2] for news in seen} == {str(dense), str(models.path("llama", "packed")), "words"}
    with pytest.raises(ms.Error) as error:
        ms.evaluate(dense, progress=lambda *_: False, **WORDS)
    assert error.value.code == "interrupted"


def test_several_waves_are_one(models, monkeypatch):
    from microscale.transformers import _evaluation

    dense, packed = models.path("llama", "dense"), models.path("llama", "packed")
    wanted = ms.evaluate(dense, packed, **WORDS)
    monkeypatch.setattr(_evaluation, "_RESIDUALS", 2 * 3 * 4 * 32 * 128)
    monkeypatch.setattr(_evaluation, "_LOGITS", 256 * 11)
    found = ms.evaluate(dense, packed, **WORDS)
    assert found.kl_mean == pytest.approx(wanted.kl_mean, rel=1e-4)
    assert found.perplexity == pytest.approx(wanted.perplexity, rel=1e-6)
