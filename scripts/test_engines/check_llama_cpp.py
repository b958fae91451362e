"""llama.cpp runs our GGUF files: it loads them, answers, and its perplexity of a text stays near that of the file they were
made of; that of a file made by way of a model folder is the same. Its own quantizer's files of the same model stand beside
them. Says which of GGUF's FP4 types this llama.cpp knows.

usage: check_llama_cpp.py MICROSCALE MODEL.gguf WORK --text FILE [--windows N]
"""
import argparse
import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import llama_cpp
import numpy as np
from llama_cpp import llama_cpp as api

QUESTION, WINDOW = "Why is the sky blue?", 512
TYPES = {"MXFP4": 39, "NVFP4": 40}
OURS = {"nvfp4": 1.5, "mxfp4": 1.8}  # and how many times the original's perplexity each may have
BY_FOLDER = 0.05  # how far a file made by way of a BF16 folder may be from the one made of the file itself
# Name, type of the file, all tensors alike but the embedding. Types of llama.cpp's enum.
THEIRS = [("Q8_0", api.LLAMA_FTYPE_MOSTLY_Q8_0, False), ("Q4_K_M", api.LLAMA_FTYPE_MOSTLY_Q4_K_M, False),
          ("Q4_K_S", api.LLAMA_FTYPE_MOSTLY_Q4_K_S, False), ("Q4_0", api.LLAMA_FTYPE_MOSTLY_Q4_0, False),
          ("MXFP4", api.LLAMA_FTYPE_MOSTLY_MXFP4_MOE, True)]


def known_types():
    """Names of the types that the compiled library has, by their numbers."""
    name = api._lib.ggml_type_name
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.c_int]
    blocks = api._lib.ggml_blck_size
    blocks.restype, blocks.argtypes = ctypes.c_int64, [ctypes.c_int]
    return [wanted for wanted, number in TYPES.items()
            if (name(number) or b"").decode().upper() == wanted and blocks(number) > 0]


@api.llama_log_callback
def quiet(level, text, user):
    pass


def quantize_theirs(source, target, ftype, pure):
    parameters = api.llama_model_quantize_default_params()
    parameters.ftype, parameters.pure, parameters.allow_requantize = ftype, pure, True
    if pure:
        parameters.token_embedding_type = parameters.output_tensor_type = 8  # Q8_0, as in the source
    return api.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(parameters)) == 0


class Engine:
    def __init__(self, path):
        self.model = llama_cpp.Llama(str(path), n_ctx=WINDOW, n_batch=WINDOW, logits_all=True, verbose=False, seed=1)

    def answer(self):
        message = [{"role": "user", "content": QUESTION}]
        done = self.model.create_chat_completion(message, max_tokens=24, temperature=0)
        return " ".join(done["choices"][0]["message"]["content"].split())

    def perplexity(self, text, windows):
        """Of the second half of each window, as llama-perplexity counts."""
        tokens = self.model.tokenize(text, add_bos=False)
        losses = []
        for start in range(0, min(windows * WINDOW, len(tokens) - WINDOW + 1), WINDOW):
            window = tokens[start:start + WINDOW]
            self.model.reset()
            self.model.eval(window)
            logits = self.model.scores[WINDOW // 2 - 1:WINDOW - 1].astype(np.float64)
            logits -= logits.max(-1, keepdims=True)
            chosen = logits[np.arange(len(logits)), window[WINDOW // 2:]]
            losses.append(np.log(np.exp(logits).sum(-1)) - chosen)
        if not losses:
            sys.exit(f"the text has {len(tokens)} tokens; one window needs {WINDOW}")
        return float(np.exp(np.mean(losses)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("microscale")
    parser.add_argument("model", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--windows", type=int, default=8)
    given = parser.parse_args()
    text = given.text.read_bytes()
    api.llama_log_set(quiet, None)
    known = known_types()
    print(f"  llama-cpp-python {llama_cpp.__version__}, llama.cpp {api.llama_version().decode()}")
    print(f"  its GGUF types of FP4: {', '.join(known) or 'none'}")
    print("  " + api.llama_print_system_info().decode().strip())

    rows, problems = [("the file they are made of", given.model, None)], []
    folder = given.work / "folder"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([given.microscale, "dequantize", given.model, "-o", folder], check=True, capture_output=True)
    for form, bound in OURS.items():
        if form.upper() not in known:
            print(f"  microscale {form}: NOT RUN: this llama.cpp has no type {form.upper()}")
            continue
        for name, source in ((f"microscale {form}", given.model), (f"microscale {form}, by a folder", folder)):
            path = given.work / (name.replace(" ", "-").replace(",", "") + ".gguf")
            path.unlink(missing_ok=True)
            done = subprocess.run([given.microscale, "quantize", source, "-o", path, "--format", form],
                                  capture_output=True, text=True)
            if done.returncode:
                problems.append(f"{name}: exit code {done.returncode}: {done.stderr.strip()}")
            else:
                rows.append((name, path, bound))
    for name, ftype, pure in THEIRS:
        path = given.work / f"llama-quantize-{name}.gguf"
        if quantize_theirs(given.model, path, ftype, pure):
            rows.append((f"llama-quantize {name}{', all but the embedding' if pure else ''}", path, None))
        else:
            print(f"  llama-quantize {name}: NOT RUN: it refused")

    print(f"  perplexity of {given.text.name}, {given.windows} windows of {WINDOW} tokens, second halves; the answer to "
          f"'{QUESTION}':")
    original, values = None, {}
    for name, path, bound in rows:
        engine = Engine(path)
        value, answer = engine.perplexity(text, given.windows), engine.answer()
        original = original or value
        values[name] = value
        direct = values.get(name.removesuffix(", by a folder"), value)
        if abs(value / direct - 1) > BY_FOLDER:
            problems.append(f"{name}: perplexity {value:.3f}, and {direct:.3f} of the file made without a folder")
        print(f"  {name:40} {path.stat().st_size / 1e6:7.1f} MB  {value:8.3f}  {answer}", flush=True)
        if bound and not value < bound * original:
            problems.append(f"{name}: perplexity {value:.3f}, more than {bound} times the original's {original:.3f}")
        if not answer:
            problems.append(f"{name}: no answer")
    print("\n".join(problems))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
