"""One decoding step of a Llama of 8 billion parameters (synthetic weights) on a GPU, in a CUDA graph: BF16 in
transformers with its static cache, then the same model accelerated, NVFP4 weights and NVFP4 keys and values,
beside the time that reading its bytes takes.

    python bench/python/decode.py [--layers 32] [--cases 1x512,1x4096,16x4096,64x1024] [--prefill 4096] [--whole] [--json FILE]

Needs a GPU with 40 GB, torch and transformers. Prints a table; figures are medians of 20 replays.
"""

import argparse
import copy
import json
import time

import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

import microscale
import microscale.transformers as mstf


def with_random_weights(kind, config, device="cuda"):
    """A model in BF16, made where it runs; norms are 1."""
    with torch.device("meta"):
        model = kind(config).to(torch.bfloat16)
    model = model.to_empty(device=device).eval()
    generator = torch.Generator(device).manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.fill_(1)
            else:
                parameter.normal_(0, 0.02, generator=generator)
    rotary = type(model.model.rotary_emb)(config=config)  # its buffers were on meta
    model.model.rotary_emb = rotary.to(device)
    return model.requires_grad_(False)


def made_model(layers):
    config = LlamaConfig(
        hidden_size=4096, intermediate_size=14336, num_hidden_layers=layers, num_attention_heads=32,
        num_key_value_heads=8, head_dim=128, vocab_size=128256, max_position_embeddings=32768, rope_theta=5e5,
        tie_word_embeddings=False,
    )  # fmt: skip
    return with_random_weights(LlamaForCausalLM, config)


def median_ms(call, replays=20):
    times = []
    for _ in range(replays):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[len(times) // 2]


def read_bandwidth():
    """Bytes a second of reading 8 GiB."""
    data = torch.empty(1 << 31, dtype=torch.float32, device="cuda").uniform_()
    data.sum()
    seconds = median_ms(data.sum) / 1e3
    return data.nbytes / seconds


def some_keys(model, batch, context):
    sizes = (model.config.num_key_value_heads, context, model.config.head_dim)
    return torch.randn(batch, *sizes, dtype=torch.bfloat16, device="cuda")


def filled_static(model, batch, context):
    config = copy.copy(model.config)  # a layer with a window keeps all tokens: a graph cannot take the other kind
    config.layer_types = ["full_attention"] * config.num_hidden_layers
    cache = StaticCache(config=config, max_cache_len=context + 8)
    k = some_keys(model, batch, context)
    for layer in range(model.config.num_hidden_layers):
        cache.update(k, k, layer, {"cache_position": torch.arange(context, device="cuda")})
    return cache


def filled_packed(model, batch, context):
    cache = mstf.Cache(context + 8, "nvfp4", page_size=64)
    k = some_keys(model, batch, context)
    for layer in range(model.config.num_hidden_layers):
        cache.update(k, k, layer)
        cache.layers[layer].cache.append(k.transpose(1, 2), k.transpose(1, 2))
        cache.layers[layer].awaited = False  # of attend, which would have appended
    return cache


def shared_lengths(cache):
    """One tensor of which every layer's count of tokens is a part, so that one kernel sets all of them."""
    holders = []
    for layer in cache.layers:
        if isinstance(layer, mstf._cache.CacheLayer):
            holders.append((layer.cache, "lengths"))
        elif isinstance(getattr(layer, "cumulative_length", None), torch.Tensor):
            holders.append((layer, "cumulative_length"))
    if not holders:
        return None
    every = torch.stack([getattr(*holder) for holder in holders])
    for (holder, name), part in zip(holders, every, strict=True):
        setattr(holder, name, part)
    return every


def prepare_to_compile():
    """Settings for layers that are compiled one by one."""
    torch._dynamo.config.recompile_limit = 1000  # every layer is one, its number is a constant
    if hasattr(torch._inductor.config.triton, "enable_pdl"):
        torch._inductor.config.triton.enable_pdl = True  # kernels begin while those in front of them end


def step_of(model, cache, batch, context, mask=None):
    """A step as a graph, and the host time of an eager one, in ms."""
    lengths = shared_lengths(cache)
    token = torch.full((batch, 1), 7, device="cuda")
    position = torch.full((batch, 1), context, device="cuda")

    def step():
        with torch.no_grad():
            return model(input_ids=token, position_ids=position, past_key_values=cache, use_cache=True,
                         attention_mask=mask, cache_position=position[0]).logits  # fmt: skip

    def back():  # to the same length: steps must not fill the cache
        if lengths is not None:
            lengths.fill_(context)
        for layer in cache.layers:
            if isinstance(layer, mstf._cache.CacheLayer):
                layer.tokens = context

    for _ in range(3):
        step()
        back()
    torch.cuda.synchronize()
    start = time.perf_counter()
    step()
    host = (time.perf_counter() - start) * 1e3
    back()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
        back()
    return graph.replay, host


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--cases", default="1x512,1x4096,16x4096,64x1024")
    parser.add_argument("--prefill", type=int, default=4096)
    parser.add_argument("--whole", action="store_true", help="compile the model at once, not layer by layer")
    parser.add_argument(
        "--profile", action="store_true", help="also the kernels of a step of the first case"
    )
    parser.add_argument("--json")
    options = parser.parse_args()
    cases = [tuple(map(int, case.split("x"))) for case in options.cases.split(",")]
    print(f"{torch.cuda.get_device_name()}, microscale {microscale.__version__}, torch {torch.__version__}, "
          f"transformers {transformers.__version__}")  # fmt: skip
    bandwidth = read_bandwidth()
    print(f"reading: {bandwidth / 1e12:.2f} TB/s (sum of 8 GiB)")
    torch.cuda.empty_cache()
    model = made_model(options.layers)
    dense_bytes = sum(p.nbytes for p in model.parameters())
    prompt = torch.randint(0, 1000, (1, options.prefill), device="cuda")

    def prefill():
        with torch.no_grad():
            model(input_ids=prompt, use_cache=False, logits_to_keep=1)

    rows = {}
    for case in cases:
        replay, host = step_of(model, filled_static(model, *case), *case)
        rows[case] = {"bf16_ms": median_ms(replay), "bf16_host_ms": host}
        del replay
        torch.cuda.empty_cache()
    prefill()
    prefill_bf16 = median_ms(prefill, 5)

    start = time.perf_counter()
    report = mstf.accelerate(model, "nvfp4")
    torch.cuda.synchronize()
    print(f"accelerated in {time.perf_counter() - start:.1f} s: {report}")
    weights = [*model.parameters(), *model.buffers()]
    packed_bytes = sum(w.nbytes for w in weights)
    read_bytes = packed_bytes - model.model.embed_tokens.weight.nbytes
    prefill()
    prefill_packed = median_ms(prefill, 5)
    for compiled in (False, True):
        if compiled:
            prepare_to_compile()
            for module in [model.model] if options.whole else model.model.layers:
                module.compile(fullgraph=True)
        for case in cases:
            cache = filled_packed(model, *case)
            replay, host = step_of(model, cache, *case)
            key = "compiled_ms" if compiled else "packed_ms"
            rows[case][key] = median_ms(replay)
            rows[case]["packed_host_ms"] = min(host, rows[case].get("packed_host_ms", host))
            rows[case]["floor_ms"] = (read_bytes + cache.memory_bytes()) / bandwidth * 1e3
            print(f"{case[0]} x {case[1]}: {key} {rows[case][key]:.2f}, floor {rows[case]['floor_ms']:.2f}, "
                  f"BF16 {rows[case]['bf16_ms']:.2f}", flush=True)  # fmt: skip
            del replay, cache
            torch.cuda.empty_cache()
    print(f"weights {packed_bytes / 1e9:.2f} GB, {packed_bytes / dense_bytes:.3f} of BF16")
    print(f"prefill of {options.prefill}: BF16 {prefill_bf16:.1f} ms, accelerated {prefill_packed:.1f} ms, "
          f"{prefill_bf16 / prefill_packed:.2f} x")  # fmt: skip
    print(
        "batch x tokens     floor      BF16    packed  compiled   x floor    x BF16  host BF16, packed (ms)"
    )
    for (batch, context), row in rows.items():
        best = min(row["packed_ms"], row["compiled_ms"])
        print(f"{batch:5} x {context:6}  {row['floor_ms']:8.2f}  {row['bf16_ms']:8.2f}  {row['packed_ms']:8.2f}  "
              f"{row['compiled_ms']:8.2f}  {best / row['floor_ms']:8.2f}  {row['bf16_ms'] / best:8.2f}  "
              f"{row['bf16_host_ms']:6.1f} {row['packed_host_ms']:6.1f}")  # fmt: skip
    if options.profile:
        batch, context = cases[0]
        replay, _ = step_of(model, filled_packed(model, batch, context), batch, context)
        with torch.profiler.profile() as profile:
            replay()
            torch.cuda.synchronize()
        print(
            profile.key_averages().table(sort_by="cuda_time_total", row_limit=25, max_name_column_width=90)
        )
    if options.json:
        with open(options.json, "w") as file:
            json.dump({f"{b}x{c}": row for (b, c), row in rows.items()}, file, indent=1)


if __name__ == "__main__":
    main()
