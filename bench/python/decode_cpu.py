"""Greedy decoding and prefill of a model under transformers on a CPU: BF16 in torch, then its NVFP4 folder
accelerated, in turn.

    python bench/python/decode_cpu.py DENSE QUANTIZED [--new 64] [--prompt 32] [--prefill 512] [--rounds 3]
        [--threads N] [--long 2000] [--profile] [--json FILE]

DENSE, QUANTIZED: folders of one model. Each round times both, and the best of the rounds counts: a shared machine
is slower at times, never faster. --long generates that many tokens with the quantized model and keys and
values in NVFP4, and prints the memory of the process on the way. Needs torch and transformers, no network.
"""

import argparse
import json
import os
import time

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.generation.streamers import BaseStreamer

import microscale
import microscale.transformers as mstf

QUESTION = "Explain in simple words why the sky is blue in the day and red in the evening."


def processor():
    with open("/proc/cpuinfo") as file:
        found = {line.partition(":")[0].strip(): line.partition(":")[2].strip() for line in file}
    flags = set(found.get("flags", "").split())
    sets = [one for one in ("amx_bf16", "avx512_bf16", "avx512f", "avx2") if one in flags]
    return f"{found.get('model name', 'a CPU')} ({sets[0] if sets else 'no AVX2'})"


def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def bytes_of(model):
    return sum(t.nbytes for t in {id(t): t for t in [*model.parameters(), *model.buffers()]}.values())


class Clock(BaseStreamer):
    """The time of every token."""

    def __init__(self, every=None):
        self.times, self.every = [], every

    def put(self, value):
        self.times.append(time.perf_counter())
        if self.every and len(self.times) % self.every == 0:
            print(f"  after {len(self.times):5} tokens: {resident_mb():.0f} MB", flush=True)

    def end(self):
        pass


def generated(model, prompt, new, every=None, **words):
    """The tokens, and tokens a second without the prompt's step."""
    clock = Clock(every)
    model.generation_config.eos_token_id = None
    result = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=new, do_sample=False, streamer=clock,
        pad_token_id=0, **words,
    )  # fmt: skip
    times = clock.times[1:]  # the first is the prompt
    return result[0, prompt.shape[1] :].tolist(), (len(times) - 1) / (times[-1] - times[0])


def prefill_seconds(model, ids):
    start = time.perf_counter()
    model(input_ids=ids, use_cache=False, logits_to_keep=1)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dense")
    parser.add_argument("quantized")
    parser.add_argument("--new", type=int, default=64)
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--long", type=int, default=0)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(options.dense)
    models = {
        "bf16": AutoModelForCausalLM.from_pretrained(options.dense, dtype=torch.bfloat16).eval(),
        "packed": AutoModelForCausalLM.from_pretrained(options.quantized, dtype=torch.bfloat16).eval(),
    }
    print(f"{processor()}, {torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f}; microscale "
          f"{microscale.__version__}, torch {torch.__version__}, transformers {transformers.__version__}")  # fmt: skip
    print(mstf.accelerate(models["packed"]))
    words = tokenizer(QUESTION)["input_ids"]
    prompt = torch.tensor([(words * options.prompt)[: options.prompt]])
    long_prompt = torch.tensor([(words * options.prefill)[: options.prefill]])
    question = torch.tensor(
        [tokenizer(f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n")["input_ids"]]
    )
    best = {
        name: {"tokens_per_s": 0.0, "prefill_s": 1e9, "bytes": bytes_of(model)}
        for name, model in models.items()
    }
    with torch.no_grad():
        for name, model in models.items():
            text, _ = generated(model, question, 32)
            print(f"{name:6} answers: {tokenizer.decode(text)!r}")
            prefill_seconds(model, long_prompt)
        for _ in range(options.rounds):
            for name, model in models.items():
                own = best[name]
                own["tokens_per_s"] = max(own["tokens_per_s"], generated(model, prompt, options.new)[1])
                own["prefill_s"] = min(own["prefill_s"], prefill_seconds(model, long_prompt))
        for name, own in best.items():
            print(f"{name:6} {own['bytes'] / 1e6:7.0f} MB  {own['tokens_per_s']:7.1f} tokens/s  "
                  f"prefill of {options.prefill}: {own['prefill_s'] * 1e3:6.0f} ms")  # fmt: skip
        a, b = best["bf16"], best["packed"]
        print(f"packed over BF16: decoding {b['tokens_per_s'] / a['tokens_per_s']:.2f} x, prefill "
              f"{a['prefill_s'] / b['prefill_s']:.2f} x, {b['bytes'] / a['bytes']:.2f} of the memory; load now "
              f"{os.getloadavg()[0]:.1f}")  # fmt: skip
        if options.profile:
            for name, model in models.items():
                with torch.profiler.profile() as profile:
                    generated(model, prompt, 16)
                print(name, profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=22,
                                                         max_name_column_width=50))  # fmt: skip
        if options.long:
            print(f"{options.long} tokens with the packed model, {resident_mb():.0f} MB before:")
            cache = mstf.Cache(prompt.shape[1] + options.long)
            _, speed = generated(
                models["packed"], prompt, options.long, max(1, options.long // 8), past_key_values=cache
            )
            print(f"  {speed:.1f} tokens/s")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(best, file, indent=1)


if __name__ == "__main__":
    main()
