"""One decoding step of a mixture of experts of the size of gpt-oss-20b (synthetic weights: 24 layers, 2880, 32 experts of
2880, 4 of them a token) on a GPU: BF16 in transformers with its static cache, then the same model accelerated, experts
in MXFP4 and keys and values in NVFP4, beside the time that reading its bytes takes.

    python bench/python/decode_experts.py [--layers 24] [--cases 1x512,64x512] [--json FILE]

BF16 is timed by each implementation of experts that a CUDA graph takes; the fastest is shown.
Needs a GPU with 60 GB, torch and transformers. Prints a table; figures are medians of 20 replays.
"""

import argparse
import json

import decode
import torch
import transformers
from transformers import GptOssConfig, GptOssForCausalLM

import microscale
import microscale.transformers as mstf


def made_model(layers):
    kinds = ["sliding_attention", "full_attention"] * (layers // 2)
    config = GptOssConfig(num_hidden_layers=layers, num_local_experts=32, layer_types=kinds)
    return decode.with_random_weights(GptOssForCausalLM, config)


def expert_bytes(model):
    return sum(
        value.nbytes
        for layer in model.model.layers
        for value in [*layer.mlp.experts.parameters(), *layer.mlp.experts.buffers()]
    )


def read_share(batch, experts=32, chosen=4):
    """Of the experts' bytes, what a step of so many tokens reads where each chooses at random."""
    return 1 - (1 - chosen / experts) ** batch


def masks(model, batch, context):
    """Of a step, by the kind of layer: what transformers' eager attention (sdpa has no sinks) makes anew in each step, by a
    copy that graphs refuse."""
    at = torch.arange(context + 8, device=model.device)
    seen = {"full_attention": at <= context}
    seen["sliding_attention"] = seen["full_attention"] & (at > context - model.config.sliding_window)
    least = torch.finfo(torch.bfloat16).min
    return {
        kind: torch.where(rows, 0.0, least).bfloat16().expand(batch, 1, 1, -1) for kind, rows in seen.items()
    }


def fastest_bf16(model, case):
    """By the implementations of experts that wait for nothing; the third, a loop over experts, asks which are chosen."""
    found = {}
    for name in ("grouped_mm", "batched_mm"):
        model.set_experts_implementation(name)
        cache = decode.filled_static(model, *case)
        replay, _ = decode.step_of(model, cache, *case, masks(model, *case))
        found[name] = decode.median_ms(replay)
        del replay, cache
        torch.cuda.empty_cache()
    best = min(found, key=found.get)
    return found[best], best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--cases", default="1x512,64x512")
    parser.add_argument("--json")
    options = parser.parse_args()
    cases = [tuple(map(int, case.split("x"))) for case in options.cases.split(",")]
    print(f"{torch.cuda.get_device_name()}, microscale {microscale.__version__}, torch {torch.__version__}, "
          f"transformers {transformers.__version__}")  # fmt: skip
    bandwidth = decode.read_bandwidth()
    print(f"reading: {bandwidth / 1e12:.2f} TB/s (sum of 8 GiB)")
    torch.cuda.empty_cache()
    model = made_model(options.layers)
    rows = {}
    for case in cases:
        bf16, by = fastest_bf16(model, case)
        rows[case] = {"bf16_ms": bf16, "bf16_by": by}
    report = mstf.accelerate(model, "mxfp4")
    torch.cuda.empty_cache()
    print(report)
    every = sum(w.nbytes for w in [*model.parameters(), *model.buffers()])
    experts = expert_bytes(model)
    rest = every - experts - model.model.embed_tokens.weight.nbytes
    for compiled in (False, True):
        if compiled:
            decode.prepare_to_compile()
            for layer in model.model.layers:
                layer.compile(fullgraph=True)
        for case in cases:
            cache = decode.filled_packed(model, *case)
            replay, _ = decode.step_of(model, cache, *case)
            rows[case]["compiled_ms" if compiled else "packed_ms"] = decode.median_ms(replay)
            read = rest + experts * read_share(case[0]) + cache.memory_bytes()
            rows[case]["floor_ms"] = read / bandwidth * 1e3
            del replay, cache
            torch.cuda.empty_cache()
    print("batch x tokens     floor      BF16    packed  compiled   x floor    x BF16  BF16 by")
    for (batch, context), row in rows.items():
        best = min(row["packed_ms"], row["compiled_ms"])
        print(f"{batch:5} x {context:6}  {row['floor_ms']:8.2f}  {row['bf16_ms']:8.2f}  {row['packed_ms']:8.2f}  "
              f"{row['compiled_ms']:8.2f}  {best / row['floor_ms']:8.2f}  {row['bf16_ms'] / best:8.2f}  "
              f"{row['bf16_by']}")  # fmt: skip
    if options.json:
        with open(options.json, "w") as file:
            json.dump({f"{b}x{c}": row for (b, c), row in rows.items()}, file, indent=1)


if __name__ == "__main__":
    main()
