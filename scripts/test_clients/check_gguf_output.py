"""GGUF files that `microscale quantize IN.gguf -o OUT.gguf` writes, as the gguf package reads them. Tensors that are kept
and all metadata are those of the input, byte for byte; the weights, decoded by that package and multiplied by their
scales, are what `microscale dequantize` makes of them, bit for bit, and closer to the input than the package's own
quantizer comes. A file of weights of every type that is decoded, experts too; a real model where there is one.

usage: check_gguf_output.py MICROSCALE WORK [MODEL.gguf]
"""
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
from safetensors.torch import load_file

TYPES = "F32 F16 BF16 Q4_0 Q8_0 Q4_K Q6_K".split()
OWN = {"general.file_type", "general.quantization_version"}
SEED = 40


def run(microscale, *words):
    subprocess.run([microscale, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def write_random(path):
    rng = np.random.default_rng(SEED)
    writer = gguf.GGUFWriter(path, "random")
    writer.add_array("tokenizer.ggml.tokens", ["a", "ü", ""])
    writer.add_array("numbers", [1.5, -2.5])
    writer.add_bool("yes", True)
    writer.add_uint64("large", 1 << 40)
    for i, name in enumerate(TYPES):
        kind = gguf.GGMLQuantizationType[name]
        values = (rng.standard_normal((96, 512)) * 0.02).astype(np.float32)
        try:
            data = values if name == "F32" else gguf.quantize(values, kind)
        except NotImplementedError:  # the package decodes these types only: random blocks with small scales
            block, size = gguf.GGML_QUANT_SIZES[kind]
            data = rng.integers(0, 256, (96, 512 // block * size), dtype=np.uint8)
            for at in {"Q4_K": (0, 2), "Q6_K": (208,)}[name]:
                data[:, at::size], data[:, at + 1::size] = 0, 0x14
        writer.add_tensor(f"blk.{i}.ffn_up.weight", data, raw_dtype=kind)
        writer.add_tensor(f"blk.{i}.attn_norm.weight", rng.standard_normal(512).astype(np.float32))
    writer.add_tensor("blk.0.ffn_down_exps.weight", rng.standard_normal((3, 40, 64)).astype(np.float32))
    writer.add_tensor("token_embd.weight", rng.standard_normal((10, 64)).astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def contents(path):
    reader = gguf.GGUFReader(path)
    fields = {key: [part.tobytes() for part in field.parts] for key, field in reader.fields.items()}
    return fields, {tensor.name: tensor for tensor in reader.tensors}


def values_of(tensor):
    return gguf.dequantize(tensor.data, tensor.tensor_type).reshape([int(n) for n in tensor.shape[::-1]])


def relative_mse(values, original):
    return float(((values - original) ** 2).sum() / (original.astype(np.float64) ** 2).sum())


def check(microscale, work, source, form, ours_by_name):
    problems, kind = [], gguf.GGMLQuantizationType[form.upper()]
    target = work / f"{source.stem}-{form}.gguf"
    target.unlink(missing_ok=True)
    run(microscale, "quantize", source, "-o", target, "--format", form)
    run(microscale, "verify", target)
    (fields, before), (written, after) = contents(source), contents(target)
    same = [key for key in fields if key not in OWN | {"GGUF.tensor_count", "GGUF.kv_count"}]
    problems += [f"{form}: {key} is not as it was" for key in same if written.get(key) != fields[key]]
    if fields.keys() - written.keys() or (written.keys() - fields.keys()) - OWN:
        problems.append(f"{form}: other keys than before")
    if list(written["general.file_type"][-1]) != [39 if form == "nvfp4" else 38, 0, 0, 0]:
        problems.append(f"{form}: general.file_type is {written['general.file_type']}")
    ours, quantized, errors, theirs = {}, 0, [], []
    if ours_by_name:
        run(microscale, "dequantize", target, "-o", work / f"{target.stem}-dense", "--dtype", "f32")
        ours = load_file(work / f"{target.stem}-dense/model.safetensors")
    for name, tensor in after.items():
        if name.endswith(".scale"):
            continue
        old = before[name]
        if tensor.tensor_type == old.tensor_type:
            if tensor.data.tobytes() != old.data.tobytes():
                problems.append(f"{form}: {name} was kept and is not as it was")
            continue
        if tensor.tensor_type != kind:
            problems.append(f"{form}: {name} became {tensor.tensor_type}")
            continue
        values = values_of(tensor)
        if form == "nvfp4":
            scale = after[name.removesuffix(".weight") + ".scale"].data
            values = values * scale.reshape(-1, *[1] * (values.ndim - 1))
        quantized += 1
        original = values_of(old).astype(np.float32)
        errors.append(relative_mse(values, original))
        try:
            own = gguf.dequantize(gguf.quantize(original, kind), kind).reshape(original.shape)
            theirs.append(relative_mse(own, original))
            if errors[-1] > theirs[-1]:
                problems.append(f"{form}: {name}: error {errors[-1]:.3%}, and {theirs[-1]:.3%} of the gguf package")
        except NotImplementedError:
            pass
        if ours and not np.array_equal(ours[name].float().numpy().view(np.uint32), values.view(np.uint32)):
            problems.append(f"{form}: {name}: other values than microscale dequantize writes")
    if quantized == 0:
        problems.append(f"{form}: nothing was quantized")
    beside = f", by the package itself {np.mean(theirs):.3%}" if theirs else ""
    print(f"  gguf {importlib.metadata.version('gguf')}: {source.name} to {form}: {quantized} weights, mean relative "
          f"MSE {np.mean(errors):.3%}{beside}; {len(after)} tensors and {len(written)} values read")
    return problems


def main(microscale, work, *models):
    work = Path(work)
    work.mkdir(parents=True, exist_ok=True)
    write_random(work / "random.gguf")
    problems = []
    for form in ("nvfp4", "mxfp4"):
        problems += check(microscale, work, work / "random.gguf", form, True)
        for model in models:
            problems += check(microscale, work, Path(model), form, False)
    print("\n".join(problems) or "  all as wanted")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
