"""Loads the quantized folders in transformers and compares their sentence embeddings (mean pooling, as the model
card says) with the original's: close, but not suspiciously so. They must be exactly those of the folder that
`microscale dequantize --dtype bf16` wrote, since the weights are the same numbers: once decompressed while
loading, computed in FP32; once as a plain from_pretrained() does it, compressed and computed in BF16.

usage: check_transformers.py ORIGINAL WORK FORMAT...      reads WORK/FORMAT and WORK/FORMAT-bf16
"""
import sys
import warnings

import torch
import transformers
from transformers import AutoModel, AutoTokenizer, CompressedTensorsConfig

SENTENCES = [
    "A man is eating food.", "A woman plays the violin in a crowded street.",
    "The quick brown fox jumps over the lazy dog.", "Quantization maps many numbers to few.",
    "How do I renew my passport?", "The stock market fell sharply on Monday.",
    "She sells sea shells by the sea shore.", "Photosynthesis turns light into chemical energy.",
    "Ein Satz in einer anderen Sprache.", "2 + 2 = 4",
    "The cat sat on the mat while it rained all afternoon and nobody came to the door.", "No.",
]
# Cosine of an embedding with the original's: the least of all sentences; the mean, two-sided. A model of 384
# columns feels 4 bits: plain rounding to NVFP4 gives a mean of 0.967.
PLAUSIBLE = {"nvfp4": (0.85, 0.955, 0.995), "mxfp4": (0.75, 0.93, 0.99), "mxfp8": (0.98, 0.993, 0.9999)}


def embed(folder, tokens, **options):
    model = AutoModel.from_pretrained(folder, **options).eval()
    with torch.no_grad():
        hidden = model(**tokens).last_hidden_state.float()
    mask = tokens["attention_mask"].unsqueeze(-1)
    return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)


def check(original, work, name):
    quantized, dequantized = f"{work}/{name}", f"{work}/{name}-bf16"
    tokens = AutoTokenizer.from_pretrained(quantized)(SENTENCES, padding=True, return_tensors="pt")
    wanted = embed(original, tokens, dtype=torch.float32)
    dense = embed(dequantized, tokens, dtype=torch.float32)
    got = embed(quantized, tokens, dtype=torch.float32, quantization_config=CompressedTensorsConfig(dequantize=True))
    dense_bf16 = embed(dequantized, tokens, dtype=torch.bfloat16)
    plain = embed(quantized, tokens)

    cosines = (wanted * got).sum(-1)
    least, mean = cosines.min().item(), cosines.mean().item()
    least_wanted, low, high = PLAUSIBLE[name]
    problems = []
    if not (least > least_wanted and low < mean < high):
        problems.append(f"{name}: cosine least {least:.6f}, mean {mean:.6f}; wanted least above {least_wanted}, "
                        f"mean between {low} and {high}")
    for how, theirs, ours in (("decompressed", got, dense), ("plain", plain, dense_bf16)):
        if not torch.equal(ours, theirs):
            problems.append(f"{name}, {how}: embeddings differ from the dequantized folder's by up to "
                            f"{(ours - theirs).abs().max().item():.3g}; the weights are not the same")
    print("\n".join(problems) or f"  transformers, {name}: {len(SENTENCES)} embeddings, cosine with the original's: "
          f"mean {mean:.5f}, least {least:.5f}; equal to the dequantized folder's")
    return problems


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    transformers.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    sys.exit(any([check(*sys.argv[1:3], name) for name in sys.argv[3:]]))
