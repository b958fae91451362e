"""vLLM for the CPU runs our folders by microscale.vllm: `vllm serve` answers OpenAI's client, and what it says is what the
dequantized folder says in the same engine, up to rounding. A mixture, fused layers of several global scales, and two ranks,
by random models.

usage: check_vllm_plugin.py MICROSCALE MODEL.gguf WORK
"""
import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PROMPTS = ["The capital of France is", "Water boils at", "def fibonacci(n):\n", "Once upon a time, in a small village,"]
FORMATS = ("nvfp4", "mxfp4", "mxfp8")
# Largest differences of log-probabilities from those of the dequantized folder. In FP32 its weights are the very values. In
# BF16 they are rounded to 8 bits, and so is every result of a layer: there the engine's own BF16 against its FP32 is the measure,
# twice that is allowed, as either side may err.
ROUNDING = 0.001
TIMEOUT = 600


def environment(plugin):
    words = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "WARNING",
             "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # two ranks on two cores
             "MICROSCALE_VLLM": "1" if plugin else "0"}
    return {**os.environ, **words}


def give_vllm_its_name(work):
    """The program `vllm` asks for the version of a package vllm; vllm-cpu 0.32 has the program, but not the name."""
    try:
        version("vllm")
    except PackageNotFoundError:
        found = version("vllm-cpu") + "+cpu"  # by which vLLM knows its platform
        folder = work / "name" / f"vllm-{found}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {found}\n")
        os.environ["PYTHONPATH"] = f"{folder.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"


def answers(folder, plugin, prompts=PROMPTS, tokens=24, **words):
    asked = json.dumps({"prompts": prompts, "tokens": tokens, **words})
    command = [sys.executable, str(Path(__file__).with_name("vllm_answers.py")), str(folder), asked]
    done = subprocess.run(command, env=environment(plugin), capture_output=True, text=True, timeout=TIMEOUT)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line.removeprefix("RESULT "))
    errors = re.findall(r"^.*\w*(?:Error|Exception): .+$", done.stdout + done.stderr, re.M)
    sys.exit(f"{folder}: vLLM ended with code {done.returncode} and no answer:\n" + "\n".join(errors[:4]) + done.stderr[-2000:])


def difference(wanted, got):
    """Largest difference of the log-probabilities of the prompts' tokens and of greedy tokens up to the first that is
    another, and how many tokens came before. One that is another counts by what the wanted engine gives both."""
    largest, same, total = 0.0, 0, 0
    for one, other in zip(wanted, got, strict=True):
        largest = max([largest, *(abs(a - b) for a, b in zip(one["prompt"], other["prompt"], strict=True))])
        total += len(one["tokens"])
        columns = [side[word] for word in ("tokens", "choices") for side in (one, other)]
        for token, found, choices, theirs in zip(*columns, strict=True):
            if token != found:
                largest = max(largest, choices[str(token)] - choices.get(str(found), -math.inf))
                break
            largest = max(largest, abs(choices[str(token)] - theirs[str(token)]))
            same += 1
    return largest, same, total


class Problems(list):
    def compare(self, name, dtype, wanted, got, allowed):
        largest, same, total = difference(wanted, got)
        print(f"  {name:34} {dtype:9} {same:3} of {total} greedy tokens before the first other; log-probabilities within "
              f"{largest:.4f} (allowed {allowed:.3f})", flush=True)
        if not largest <= allowed:
            self.append(f"{name}, {dtype}: log-probabilities differ by {largest}, more than {allowed}")


def folders(microscale, source, work, name, format, dtype):
    """Quantized, and those values dense."""
    packed, plain = work / f"{name}-{format}", work / f"{name}-{format}-{dtype}"
    commands = [["dequantize", packed, "-o", plain, "--dtype", dtype]]
    if not packed.exists():
        commands.insert(0, ["quantize", source, "-o", packed, "--format", format])
    for command in commands:
        subprocess.run([microscale, *command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return packed, plain


def served(folder, prompt):
    """Tokens and text of OpenAI's client from `vllm serve`, compiled as it does by default, and a chat's answer."""
    from openai import OpenAI
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = open(folder.parent / "serve.log", "w")
    program = Path(sys.executable).with_name("vllm")
    server = subprocess.Popen([program, "serve", folder, "--port", str(port), "--host", "127.0.0.1", "--max-model-len", "256",
                               "--max-num-seqs", "4", "--dtype", "bfloat16", "--served-model-name", "smollm2"],
                              env=environment(True), stdout=log, stderr=log, start_new_session=True)
    try:
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).close()
                break
            except OSError:
                if server.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"vllm serve did not start; see {log.name}:\n{Path(log.name).read_text()[-3000:]}")
                time.sleep(1)
        client = OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none")
        done = client.completions.create(model="smollm2", prompt=prompt, temperature=0, max_tokens=24,
                                         extra_body={"return_token_ids": True, "ignore_eos": True}).choices[0]
        chat = client.chat.completions.create(model="smollm2", temperature=0, max_tokens=24, messages=[
            {"role": "user", "content": "Why is the sky blue?"}])
        return done.token_ids, done.text, chat.choices[0].message.content
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(60)


def check_served(problems, folder, wanted, allowed):
    tokens, text, chat = served(folder, PROMPTS[0])
    print(f"  vllm serve, OpenAI's client: {text!r}; chat: {' '.join(chat.split())!r}", flush=True)
    if len(tokens) != 24 or not chat.strip():
        problems.append(f"vllm serve: {len(tokens)} tokens of 24, chat {chat!r}")
        return
    for token, found, choices in zip(wanted["tokens"], tokens, wanted["choices"], strict=True):
        if token != found:
            gap = choices[str(token)] - choices.get(str(found), -math.inf)
            if not gap <= allowed:
                problems.append(f"vllm serve: token {found}, where the dequantized model prefers {token} by {gap}")
            break


def random_model(work, name, **words):
    """Of transformers, far from ties."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    folder = work / f"{name}-random"
    shutil.rmtree(folder, ignore_errors=True)
    torch.manual_seed(1)
    sizes = dict(hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=2,
                 head_dim=64, vocab_size=512, max_position_embeddings=512, tie_word_embeddings=False)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(name, **{**sizes, **words}), dtype=torch.bfloat16)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data.mul_(4)
    model.save_pretrained(folder)
    return folder


def main():
    microscale, model, work = sys.argv[1], Path(sys.argv[2]).resolve(), Path(sys.argv[3]).resolve() / "plugin"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    give_vllm_its_name(work)
    print(f"  vllm-cpu {version('vllm-cpu')}, microscale {version('microscale')}")
    problems = Problems()
    exact = {}
    for format in FORMATS:
        packed, plain = folders(microscale, model, work, "smollm2", format, "f32")
        exact[format] = answers(plain, False, dtype="float32")
        problems.compare(f"SmolLM2-135M, {format}", "float32", exact[format],
                         answers(packed, True, dtype="float32"), ROUNDING)
    packed, plain = folders(microscale, model, work, "smollm2", "nvfp4", "bf16")
    wanted = answers(plain, False, dtype="bfloat16")
    rounding, *_ = difference(exact["nvfp4"], wanted)
    print(f"  vLLM alone, dequantized: BF16 is within {rounding:.4f} of FP32")
    problems.compare("SmolLM2-135M, nvfp4", "bfloat16", exact["nvfp4"], answers(packed, True, dtype="bfloat16"), 2 * rounding)
    check_served(problems, packed, exact["nvfp4"][0], 2 * rounding)

    tokens = [list(range(7 + i, 60 + 3 * i)) for i in range(4)]
    more = dict(prompts=tokens, skip_tokenizer_init=True)
    dense = random_model(work, "llama")
    mixture = random_model(work, "qwen3_moe", num_experts=8, num_experts_per_tok=2, moe_intermediate_size=128)
    for name, source in (("llama", dense), ("qwen3_moe", mixture)):
        for format in FORMATS:
            packed, plain = folders(microscale, source, work, name, format, "f32")
            got = answers(packed, True, dtype="float32", **more)
            wanted = answers(plain, False, dtype="float32", **more)
            problems.compare(f"random {name}, {format}", "float32", wanted, got, ROUNDING)
            if format == "nvfp4":
                both = answers(packed, True, dtype="float32", tensor_parallel_size=2, **more)
                problems.compare(f"random {name}, {format}, 2 ranks", "float32", got, both, ROUNDING)
    print("\n".join(problems))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
