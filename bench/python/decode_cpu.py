"""Greedy decoding and prefill of a model under transformers on a CPU: BF16 in torch, then its NVFP4 folder
accelerated, in turn.

    python bench/python/decode_cpu.py DENSE QUANTIZED [--new 24] [--prompt 32] [--prefill 512] [--rounds 8]
        [--threads N] [--head FORMAT] [--long 2000] [--profile] [--json FILE]

DENSE, QUANTIZED: folders of one model. Each round times both, and the best step of all rounds counts: a shared
machine is slower at times, never faster. The floor is what a step must read at the bandwidth of a sum in the same
run. --long generates that many tokens with the quantized model and keys and
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


def bytes_of_a_token(model):
    """What a step of one token reads: all weights, of an embedding that is no head a row."""
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    tied = head is not None and getattr(head, "weight", None) is embedding.weight
    return bytes_of(model) - (0 if tied else embedding.weight.nbytes)


def bytes_per_second():
    """A sum of 512 MB by torch's threads, the best of nine."""
    numbers, best = torch.ones(1 << 27), 1e9
    for _ in range(9):
        start = time.perf_counter()
        numbers.sum()
        best = min(best, time.perf_counter() - start)
    return numbers.nbytes / best


class Clock(BaseStreamer):
    """When each token came: by the clock, and in processor time of all threads."""

    def __init__(self, every=None):
        self.times, self.every = [], every

    def put(self, value):
        self.times.append((time.perf_counter(), time.process_time()))
        if self.every and len(self.times) % self.every == 0:
            print(f"  after {len(self.times):5} tokens: {resident_mb():.0f} MB", flush=True)

    def end(self):
        pass

    def best(self):
        """Of a token's step, without the prompt's and the first."""
        steps = list(zip(self.times[2:], self.times[3:], strict=False))
        return tuple(min(b[i] - a[i] for a, b in steps) * 1e3 for i in range(2))


def generated(model, prompt, new, every=None, **words):
    """The tokens, and the clock that saw them come."""
    clock = Clock(every)
    model.generation_config.eos_token_id = None
    result = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=new, do_sample=False, streamer=clock,
        pad_token_id=0, **words,
    )  # fmt: skip
    return result[0, prompt.shape[1] :].tolist(), clock


def prefill(model, ids):
    start = time.perf_counter(), time.process_time()
    model(input_ids=ids, use_cache=False, logits_to_keep=1)
    return (time.perf_counter() - start[0]) * 1e3, (time.process_time() - start[1]) * 1e3


def show(best, models, bandwidth, threads, length):
    print(f"reading {bandwidth / 1e9:.1f} GB/s by {threads} threads; best of all steps: clock (processor time), ms")
    print(f"{'':20}{'reads':>9}{'floor':>9}{'a token':>18}{f'prefill of {length}':>20}")
    for name, own in best.items():
        read = bytes_of_a_token(models[name])
        token, ahead = (f"{own[what][0]:.1f} ({own[what][1]:.1f})" for what in ("token", "prefill"))
        print(f"{name:20}{read / 1e6:6.0f} MB{read / bandwidth * 1e3:9.1f}{token:>18}{ahead:>20}")
    a, b = best.values()
    token, ahead = (
        f"{a[what][0] / b[what][0]:.2f} ({a[what][1] / b[what][1]:.2f})" for what in ("token", "prefill")
    )
    print(f"{'times as fast':38}{token:>18}{ahead:>20}; load now {os.getloadavg()[0]:.1f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dense")
    parser.add_argument("quantized")
    parser.add_argument("--new", type=int, default=24)
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--long", type=int, default=0)
    parser.add_argument("--head", help="a format for the output layer, which is BF16 otherwise")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(options.dense)
    models = {
        "BF16 in torch": AutoModelForCausalLM.from_pretrained(options.dense, dtype=torch.bfloat16).eval(),
        "NVFP4 accelerated": AutoModelForCausalLM.from_pretrained(options.quantized, dtype=torch.bfloat16).eval(),
    }
    print(f"{processor()}, {torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f}; microscale "
          f"{microscale.__version__}, torch {torch.__version__}, transformers {transformers.__version__}")  # fmt: skip
    packed = models["NVFP4 accelerated"]
    print(mstf.accelerate(packed, head=options.head))
    words = tokenizer(QUESTION)["input_ids"]
    prompt = torch.tensor([(words * options.prompt)[: options.prompt]])
    long_prompt = torch.tensor([(words * options.prefill)[: options.prefill]])
    question = torch.tensor(
        [tokenizer(f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n")["input_ids"]]
    )
    best = {name: {"token": (1e9, 1e9), "prefill": (1e9, 1e9)} for name in models}
    bandwidth = bytes_per_second()
    with torch.no_grad():
        for name, model in models.items():
            text, _ = generated(model, question, 32)
            print(f"{name} answers: {tokenizer.decode(text)!r}")
            prefill(model, long_prompt)
        for _ in range(options.rounds):
            for name, model in models.items():
                found = {
                    "token": generated(model, prompt, options.new)[1].best(),
                    "prefill": prefill(model, long_prompt),
                }
                for what, times in found.items():
                    best[name][what] = tuple(map(min, best[name][what], times))
        show(best, models, bandwidth, torch.get_num_threads(), options.prefill)
        if options.profile:
            for name, model in models.items():
                with torch.profiler.profile() as profile:
                    generated(model, prompt, 16)
                print(name, profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=22,
                                                         max_name_column_width=50))  # fmt: skip
        if options.long:
            print(f"{options.long} tokens with the packed model, {resident_mb():.0f} MB before:")
            cache = mstf.Cache(prompt.shape[1] + options.long)
            every = max(1, options.long // 8)
            _, clock = generated(packed, prompt, options.long, every, past_key_values=cache)
            print(f"  best step {clock.best()[0]:.1f} ms")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(best, file, indent=1)


if __name__ == "__main__":
    main()
