"""What each way to quantize costs a model in words: a table of perplexities and of Kullback-Leibler divergences
from the model as it is, and their ratio to those of plain rounding.

    python bench/python/accuracy.py MODEL --text FILE [--calibration FILE] [--work FOLDER] [--device cuda]
        [--formats nvfp4 mxfp4] [--ways plain search text gptq gptq:0.1 rotated bits:5] [--tokens N]
        [--hessian-tokens N] [--dtype float32] [--chunks 16] [--context 512] [--seed 0] [--threads N] [--json FILE]

MODEL: a dense folder, or a GGUF file, which is expanded to BF16. --text: what is predicted; --calibration: another text,
from which statistics are (left out, the sample that calibrate takes). Ways: plain, each block's scale from its largest
element (NVFP4 nearest, MXFP4 even); search, the default; text and random, the search weighted by the mean square of each
column, of the calibration text or of random token ids; block-hessian and gptq, those methods, with a shrinkage after a
colon; forward, gptq by Hessians without gradients; rotated, MXFP4 by gptq of the rotated model, set beside the model as
it is; bits:5, formats chosen for so many bits a weight, then gptq, one row whatever the formats are. --no-gradients:
all Hessians are without.
Statistics, quantized folders and finished rows stay in --work, and a second run goes on. The model runs once, then each
row: block by block, in FP32, activations as they are, on a GPU if there is one (--device). Quantizing is the processor's.
Needs torch and transformers, no network.
"""

import argparse
import json
import os
import platform
import time
from pathlib import Path

import torch
import transformers

import microscale as ms
from microscale.transformers import _evaluation
from microscale.transformers._divergence import Divergence
from microscale.transformers._side import opened

PLAIN = {"nvfp4": "nearest", "mxfp4": "even"}
ROWS = 128  # of logits at a time


class Bench:
    def __init__(self, options):
        self.options, self.work = options, Path(options.work)
        self.work.mkdir(parents=True, exist_ok=True)
        check_plan(self.work / "plan.json", options)
        self.rows = self.work / "rows.json"
        self.found = json.loads(self.rows.read_text()) if self.rows.exists() else {}
        self.device = torch.device(options.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.model = options.model
        if self.model.endswith(".gguf"):
            self.model = str(self.work / "dense")
            if not (self.work / "dense" / "config.json").exists():
                ms.dequantize_model(options.model, self.model, "bf16")

    def statistics(self, kind):
        path = self.work / f"statistics-{kind}.safetensors"
        if not path.exists():
            text = self.options.calibration
            begun = time.time()
            made = ms.calibrate(
                self.model,
                Path(text) if text and kind != "random" else None,
                out=path,
                random=kind == "random",
                hessian=kind.startswith("hessian"),
                gradients=kind == "hessian" and self.options.gradients,
                tokens=self.options.hessian_tokens if kind.startswith("hessian") else self.options.tokens,
                seed=self.options.seed,
                dtype=self.options.dtype,
                device=self.device,
                resume=True,
            )
            print(f"{made} in {time.time() - begun:.0f} s", flush=True)
        return path

    def rotated(self, shrink):
        """(model, statistics)"""
        path = self.work / f"rotated-{shrink}"
        if not path.exists():
            statistics, by = self.statistics("hessian"), float(shrink) if shrink else None
            made = ms.rotate(self.model, path, statistics=statistics, shrink=by, device=self.device)
            print(made, flush=True)
        return path, f"{path}.statistics.safetensors"

    def folder(self, format, way):
        path = self.work / f"{format}-{way.replace(':', '-')}"
        if not (path / "config.json").exists():
            method, _, number = way.partition(":")
            more = {"scale_rule": PLAIN[format]} if way == "plain" else {}
            if method in ("text", "random"):
                more["importance"] = self.statistics(method)
            elif method in ("block-hessian", "gptq", "forward"):
                forward = method == "forward" or not self.options.gradients
                more["importance"] = self.statistics("hessian-forward" if forward else "hessian")
                more["method"] = "gptq" if method == "forward" else method
                more.update({"shrink": float(number)} if number else {})
            elif method == "bits":
                more.update(importance=self.statistics("hessian"), bits=float(number))
            model = self.model
            if method == "rotated":
                model, more["importance"] = self.rotated(number)
                more["method"] = "gptq"
            if method != "bits":
                more["format"] = format
            made = ms.quantize_model(model, path, threads=self.options.threads, resume=True, **more)
            if made.choice:
                said = ", ".join(f"{name} {each['layers']}" for name, each in made.choice["formats"].items())
                print(f"{made.choice['bits']:.4f} bits, layers in {said}", flush=True)
        return path

    def run(self):
        """Figures of each row, by its format and way."""
        wanted = rows_of(self.options)
        missing = [pair for pair in wanted if "-".join(pair) not in self.found]
        if missing:
            with torch.no_grad(), opened(self.model, torch.float32, self.device, print) as side:
                ids, bos = _evaluation.ids_of([side], Path(self.options.text), None, None)
                chunks = _evaluation.chunks_of(ids, self.options.context, self.options.chunks, bos)
                first = self.options.context // 2
                scored = slice(first, self.options.context - 1)
                states = side.hidden(chunks, scored, lambda _: None).flatten(0, 1)
                targets = chunks[:, first + 1 :].flatten().to(self.device)
                for pair in missing:
                    self.measure(side, states, chunks, scored, targets, pair)
        names = ["-".join(pair) for pair in wanted]
        return {name: self.found[name] for name in names if name in self.found}

    def measure(self, side, states, chunks, scored, targets, pair):
        begun = time.time()
        try:
            folder = str(self.folder(*pair))
        except ValueError as error:
            if not pair[1].startswith("rotated"):
                raise
            print(f"{' '.join(pair)}: {error}", flush=True)  # this kind of model has no such row
            return
        quantized = time.time() - begun
        sums = Divergence()
        with opened(folder, torch.float32, self.device, print) as other:
            others = other.hidden(chunks, scored, lambda _: None).flatten(0, 1)
            with side.head() as head, other.head() as other_head:
                for low in range(0, len(targets), ROWS):
                    cut = slice(low, low + ROWS)
                    sums.add([head(states[cut]), other_head(others[cut])], targets[cut])
        figures = sums.figures()
        self.found["-".join(pair)] = figures
        self.rows.write_text(json.dumps(self.found, indent=2))
        said = f"KL {figures['kl_mean']:.4f}, perplexity {figures['other_perplexity']:.3f}"
        print(f"{' '.join(pair)}: {said}, {quantized:.0f} + {time.time() - begun - quantized:.0f} s", flush=True)


def check_plan(path, options):
    """Ends the program where a folder has the results of another model, text or setting."""
    size = os.stat(options.model).st_size if os.path.isfile(options.model) else None
    plan = {"model": [os.path.abspath(options.model), size]}
    for name in ("text", "calibration"):
        given = getattr(options, name)
        plan[name] = given and [os.path.abspath(given), os.stat(given).st_size]
    for name in ("tokens", "hessian_tokens", "gradients", "dtype", "chunks", "context", "seed"):
        plan[name] = getattr(options, name)
    before = json.loads(path.read_text()) if path.exists() else plan
    for name, value in plan.items():
        if before.get(name) != value:
            raise SystemExit(
                f"{path.parent} has results of another {name}: {before.get(name)}, now {value}; give another --work"
            )
    path.write_text(json.dumps(plan, indent=2))


def rows_of(options):
    """(format, way) of each row: rotations are of MXFP4, a budget takes formats as it needs them."""
    found = []
    for format in options.formats:
        found += [
            (format, way)
            for way in options.ways
            if not way.startswith("bits:") and (format == "mxfp4" or not way.startswith("rotated"))
        ]
    return found + [("mixed", way) for way in options.ways if way.startswith("bits:")]


def table(found, options, device):
    first = next(iter(found.values()))["perplexity"]
    print(f"\n| | perplexity ({first:.3f}) | mean KL | of plain | KL of 99 % | same top word |")
    print("|---|---|---|---|---|---|")
    for name, row in found.items():
        format, _, way = name.partition("-")
        plain, said = found.get(f"{format}-plain"), ""
        if plain:
            said = f"{row['kl_mean'] / plain['kl_mean']:.3f}"
        elif "nvfp4-gptq" in found:
            said = f"{row['kl_mean'] / found['nvfp4-gptq']['kl_mean']:.3f} of nvfp4 gptq"
        print(
            f"| {format.upper()}, {way} | {row['other_perplexity']:.3f} | {row['kl_mean']:.4f} ± "
            f"{row['kl_error']:.4f} | {said} | {row['kl_99']:.2f} | {100 * row['same_top']:.1f} % |"
        )
    print(f"\n{surroundings(options, device)}")


def surroundings(options, device):
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    place = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    return (
        f"{options.chunks} chunks of {options.context} tokens on {place}; microscale {ms.__version__}, torch "
        f"{torch.__version__}, transformers {transformers.__version__}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores, load {load}; seed {options.seed}"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--text", required=True)
    parser.add_argument("--calibration")
    parser.add_argument("--work", default="accuracy")
    parser.add_argument("--formats", nargs="+", choices=list(PLAIN), default=list(PLAIN))
    parser.add_argument("--ways", nargs="+", default=["plain", "search", "text", "random"])
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--hessian-tokens", type=int)
    parser.add_argument("--gradients", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--dtype", default="float32")  # of the calibration
    parser.add_argument("--chunks", type=int, default=16)
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    bench = Bench(options)
    found = bench.run()
    table(found, options, bench.device)
    if options.json:
        about = {"model": options.model, "on": surroundings(options, bench.device)}
        Path(options.json).write_text(json.dumps({"about": about, "rows": found}, indent=2))


if __name__ == "__main__":
    main()
