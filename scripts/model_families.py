#!/usr/bin/env python3
"""The tensors of model families: names, shapes and types as their files have them, with what becomes of each.

usage: scripts/model_families.py add NAME FOLDER "TITLE"   writes tests/checkpoint/families/NAME.txt from the headers
                                                           and config.json of a model folder
       scripts/model_families.py renew FOLDER              takes the verdicts that test_checkpoint wrote there, run with
                                                           MICROSCALE_FAMILIES_OUT=FOLDER
       scripts/model_families.py table [--check]           writes docs/models.md from the files, or compares it
       scripts/model_families.py parts [--check]           the same of what their layers have, a source of the library

Layers, experts and rows are made few and small; what a config.json says is cut down to what verdicts hang on. Look at
each changed verdict before you commit it: the files say what is right.
"""
import collections
import itertools
import json
import re
import struct
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FAMILIES = ROOT / "tests/checkpoint/families"
TABLE = ROOT / "docs/models.md"
PARTS = ROOT / "src/checkpoint/completeness_families_table.cpp"
CONFIG_KEYS = {"model_type", "hidden_size", "n_embd", "d_model", "num_hidden_layers", "vocab_size", "padded_vocab_size",
               "swiglu_limit", "decoder_layers", "_class_name", "architectures"}
LAYERS, EXPERTS, LARGEST, SMALL = 4, 2, 512, 64
NUMBER = re.compile(r"(?:(?<=\.)|^)\d+(?=\.)")


def short_config(config):
    result = {}
    for key, value in config.items():
        if isinstance(value, dict) and key.endswith("_config") and key != "quantization_config":
            result[key] = short_config(value)
        elif key in CONFIG_KEYS and value:
            result[key] = value
    return result


def headers(folder):
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        tensors.update({name: (entry["dtype"], entry["shape"]) for name, entry in header.items()
                        if name != "__metadata__"})
    return tensors


def cut(tensors):
    """The first layers of long stacks, two experts of each layer, no dimension above LARGEST."""
    highest = collections.defaultdict(int)
    for name in tensors:
        for match in NUMBER.finditer(name):
            highest[name[:match.start()]] = max(highest[name[:match.start()]], int(match.group()))

    def wanted(name):
        for match in NUMBER.finditer(name):
            start, number = name[:match.start()], int(match.group())
            if number >= (EXPERTS if start.endswith("experts.") else
                          2 if highest[start] > 2 * LAYERS else highest[start] + 1):
                return False
        return True

    def small(shape):
        return [SMALL if size > LARGEST and len(shape) > 1 else size for size in shape]
    return {name: (dtype, small(shape)) for name, (dtype, shape) in tensors.items() if wanted(name)}


def pack(tensors):
    """{name: (verdict, dtype, shape)} as lines; tensors alike but for their numbers are one: layers.{0,1}.x."""
    groups = collections.defaultdict(list)
    for name, (verdict, dtype, shape) in tensors.items():
        numbers = tuple(int(number) for number in NUMBER.findall(name))
        groups[verdict, dtype, tuple(shape), NUMBER.sub("#", name)].append(numbers)
    lines = []
    for (verdict, dtype, shape, name), numbers in groups.items():
        choices = [sorted(set(column)) for column in zip(*numbers)]
        whole = len(list(itertools.product(*choices))) == len(numbers)
        for one in ([choices] if whole else [[[number] for number in numbers_] for numbers_ in sorted(numbers)]):
            texts = iter("{%s}" % ",".join(map(str, c)) if len(c) > 1 else str(c[0]) for c in one)
            text = re.sub("#", lambda _: next(texts), name)
            lines.append(f"{verdict} {dtype} {'x'.join(map(str, shape)) or '-'} {text}")
    return sorted(lines, key=lambda line: (line.split()[3], line))


def expand(name):
    parts = re.split(r"\{([0-9,]+)\}", name)
    choices = [part.split(",") if at % 2 else [part] for at, part in enumerate(parts)]
    return ["".join(choice) for choice in itertools.product(*choices)]


def read(path):
    title, config, tensors = "", {}, {}
    for line in path.read_text().splitlines():
        word, rest = line.split(" ", 1)
        if word == "title":
            title = rest
        elif word == "config":
            config = json.loads(rest)
        else:
            dtype, shape, names = rest.split(" ")
            size = [int(number) for number in shape.split("x")] if shape != "-" else []
            tensors.update({name: (word, dtype, size) for name in expand(names)})
    return title, config, tensors


def write(name, title, config, tensors):
    lines = [f"title {title}", "config " + json.dumps(config)] + pack(tensors)
    (FAMILIES / f"{name}.txt").write_text("\n".join(lines) + "\n")


def add(name, folder, title):
    config = short_config(json.loads((Path(folder) / "config.json").read_text()))
    write(name, title, config, {tensor: ("?", *entry) for tensor, entry in cut(headers(Path(folder))).items()})


def renew(folder):
    for path in sorted(Path(folder).glob("*.tsv")):
        title, config, tensors = read(FAMILIES / f"{path.stem}.txt")
        verdicts = dict(reversed(line.split("\t")) for line in path.read_text().splitlines())
        write(path.stem, title, config, {name: (verdicts[name], *entry[1:]) for name, entry in tensors.items()})


def row(path):
    title, config, tensors = read(path)
    weights = {name: entry[0] for name, entry in tensors.items() if len(entry[2]) > 1}
    counts = collections.Counter(weights.values())
    kept = sorted({verdict[5:].replace("_", " ") for verdict in counts if verdict.startswith("keep:")} -
                  {"no weight", "convolution", "embedding", "norm", "vector", "scalar"})
    if any(entry[0] == "quantized" for entry in tensors.values()):
        return f"| {title} | `{path.stem}` | refused: quantized already | |"
    done = counts["quantize"] + counts["split"]
    experts = ", experts split" if counts["split"] else ""
    return f"| {title} | `{path.stem}` | {done} of {len(weights)}{experts} | {', '.join(kept)} |"


def table():
    lines = ["# Model families: what is quantized, what is kept", "",
             "Written by `scripts/model_families.py table`. Each row is a file of `tests/checkpoint/families`: every "
             "tensor that a",
             "model of the family has in its files, with few and small layers, and the verdict that a test holds the "
             "classifier to.",
             "The names are those that transformers 5.24 and diffusers 0.42 write, and, for models with code of their "
             "own, those",
             "of their published files, written down by hand. The reasons are explained in "
             "[checkpoints.md](checkpoints.md).",
             "Embeddings and norms are kept everywhere; a row's counts are of tensors with two dimensions or more.", "",
             "| model | file | quantized | kept besides |", "|---|---|---|---|"]
    rows = [row(path) for path in FAMILIES.glob("*.txt")]
    return "\n".join(lines + sorted(rows, key=str.lower)) + "\n"


# The stacks of language models: src/checkpoint/layer_stacks.cpp.
MAIN_STACKS = {"model.layers", "layers", "transformer.h", "h", "decoder.layers", "model.decoder.layers",
               "transformer.layers", "transformer.blocks", "thinker.model.layers", "backbone.layers",
               "model.transformer.blocks", "gpt_neox.layers", "transformer.encoder.layers"}
LANGUAGE_PARTS = {"language_model", "text_model", "llm", "language", "text_decoder", "lm"}
EXPERT = re.compile(r"(?<=experts)\.\d+\.|(?<=moe)\.\d+\.")
BUFFER = re.compile("rotary|inv_freq|masked_bias|position_ids|attn\\.bias$")
ADAPTERS = {"base_layer", "lora_A", "lora_B"}
LAYER = re.compile(r"(?:^|.*?\.)(?:layers|layer|blocks|block|h|[^.]*_layers?|[^.]*_blocks?)(?=\.\d+\.)")
HEAD = """// Written by scripts/model_families.py parts from tests/checkpoint/families.
#include "checkpoint/completeness_families.hpp"

namespace microscale {

std::string_view parts_of_families() {
  return R"(
"""
TAIL = """)";
}

}  // namespace microscale
"""


def text_model_type(config):
    for key in ("text_config", "llm_config", "language_config", "thinker_config"):
        if isinstance(config.get(key), dict):
            return text_model_type(config[key])
    return config.get("model_type")


def part_of(name, shape):
    """The module of a weight, the name of a parameter without one, "P.bias" of a bias; "" of buffers."""
    module, _, leaf = name.rpartition(".")
    if module and leaf.startswith("weight"):
        return module
    return name if shape and not BUFFER.search(name) else ""


def layers_of(config, tensors):
    """The modules of each layer of a language model, prediction layers left out: {(stack, number): {"mlp.up_proj"}}."""
    layers = collections.defaultdict(set)
    counted = config.get("text_config", config).get("num_hidden_layers") or 1 << 30
    for name, (_, _, shape) in tensors.items():
        module = part_of(name, shape)
        match = LAYER.match(module)
        if not match:
            continue
        stack = match.group()
        number, _, within = module[len(stack) + 1:].partition(".")
        if (stack in MAIN_STACKS or LANGUAGE_PARTS & set(stack.split("."))) and int(number) < counted:
            layers[stack, number].add(within)
    return {layer: modules for layer, modules in layers.items()
            if not any(module.startswith(("eh_proj", "shared_head")) for module in modules)}


def parts_of_layer(modules):
    """{"mlp": {"up_proj", "down_proj"}, "mlp.experts.#": ..., ...}; not of experts as a whole, whose weights some
    files have in one tensor, nor of other numbered modules and of adapters."""
    parts = collections.defaultdict(set)
    for module in modules:
        names = EXPERT.sub(".#.", module).split(".")
        if names[-1] == "bias" and len(names) > 1:
            names[-2:] = [".".join(names[-2:])]
        for at, name in enumerate(names):
            parts[".".join(names[:at]) or "."].add(name)
    def is_told(parent, names):
        words = parent.split(".")
        whole = "#" in names or ("experts" in words and "#" not in words)
        return not whole and not any(word.isdigit() or word in ADAPTERS for word in [*names, *words])
    return {parent: frozenset(names) for parent, names in parts.items() if is_told(parent, names)}


def parts():
    families = collections.defaultdict(lambda: collections.defaultdict(dict))  # type -> parent -> parts -> files
    for path in sorted(FAMILIES.glob("*.txt")):
        _, config, tensors = read(path)
        if any(entry[0] == "quantized" for entry in tensors.values()) or not text_model_type(config):
            continue
        for modules in layers_of(config, tensors).values():
            for parent, names in parts_of_layer(modules).items():
                families[text_model_type(config)][parent].setdefault(names, set()).add(path.stem)
    alike = collections.defaultdict(list)
    for model_type, parents in families.items():
        lines = []
        for parent, choices in parents.items():
            for names, files in choices.items():
                # A file written down by hand may leave parts out that another has.
                if not any(names < other and not files & theirs for other, theirs in choices.items()):
                    lines.append((parent, *sorted(names)))
        alike[tuple(sorted(lines))].append(model_type)
    text = ""
    for lines, types in sorted(alike.items(), key=lambda item: sorted(item[1])):
        family = " ; ".join(" ".join(words) for words in [("=", *sorted(types)), *lines])
        text += "\n+ ".join(textwrap.wrap(family, 96, break_long_words=False, break_on_hyphens=False)) + "\n"
    return HEAD + text + TAIL


def main(arguments):
    if len(arguments) == 4 and arguments[0] == "add":
        add(*arguments[1:])
    elif len(arguments) == 2 and arguments[0] == "renew":
        renew(arguments[1])
    elif arguments[:1] in (["table"], ["parts"]) and arguments[1:] in ([], ["--check"]):
        path, text = (TABLE, table()) if arguments[0] == "table" else (PARTS, parts())
        if not arguments[1:]:
            path.write_text(text)
        elif path.read_text() != text:
            print(f"{path.relative_to(ROOT)} is not what tests/checkpoint/families says; run "
                  f"scripts/model_families.py {arguments[0]}")
            return 1
    else:
        print(__doc__)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
