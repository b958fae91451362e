"""Decompresses every quantized module with the real compressed-tensors package and compares, bit for bit, with
what `microscale dequantize --dtype bf16` wrote. Also: safetensors opens every file; the modules that the
configuration names are those that are quantized; and the error against the original is a plausible one.

usage: check_compressed_tensors.py ORIGINAL WORK FORMAT...      reads WORK/FORMAT and WORK/FORMAT-bf16
"""
import json
import sys
from pathlib import Path

import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.entrypoints.convert.converters.modelopt_nvfp4 import ModelOptNvfp4Converter
from compressed_tensors.quantization import QuantizationConfig
from compressed_tensors.quantization.quant_scheme import preset_name_to_scheme
from compressed_tensors.quantization.utils import generate_gparam
from compressed_tensors.utils.match import match_named_modules
from safetensors import safe_open
from transformers import AutoConfig, AutoModel

# Relative squared error over all quantized weights of a trained model, two-sided.
PLAUSIBLE = {
    "nvfp4": (0.004, 0.009),
    "mxfp4": (0.008, 0.015),
    "mxfp8": (0.0004, 0.0009),
}


def load(folder):
    tensors = {}
    for path in sorted(Path(folder).glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():
                assert name not in tensors, f"{path}: {name} stands in two files"
                tensors[name] = file.get_tensor(name)
    return tensors


def modules_of(tensors):
    """Per quantized module its tensors, by local name."""
    modules = {name.removesuffix(".weight_scale"): {} for name in tensors if name.endswith(".weight_scale")}
    for name, tensor in tensors.items():
        module, _, local = name.rpartition(".")
        if module in modules and local != "bias":
            modules[module][local] = tensor
    return modules


def named_by_configuration(config_folder, config):
    """The modules that a loader would expect to be quantized, as transformers builds the model."""
    with torch.device("meta"):
        model = AutoModel.from_config(AutoConfig.from_pretrained(config_folder))
    return {name for group in config.config_groups.values()
            for name, _ in match_named_modules(model, group.targets, config.ignore)}


# What a group must say, by the format; compressed-tensors has names for it.
PRESETS = {"nvfp4": "NVFP4A16", "mxfp4": "MXFP4A16", "mxfp8": "MXFP8A16"}


def differences(scheme, preset):
    """Where a group does not mean what the preset means. Of scales it is enough that the type is given where it matters;
    observers and the like only matter to who quantizes."""
    wanted, problems = preset_name_to_scheme(preset, scheme.targets), []
    for what in ("weights", "input_activations", "output_activations"):
        ours, theirs = getattr(scheme, what), getattr(wanted, what)
        if (ours is None) != (theirs is None):
            problems.append(f"{what}: {ours} here, {theirs} in the preset {preset}")
        if ours is None or theirs is None:
            continue
        for key in ("num_bits", "type", "symmetric", "group_size", "strategy", "dynamic", "block_structure", "actorder",
                    "scale_dtype"):
            if getattr(ours, key) != getattr(theirs, key):
                problems.append(f"{what}.{key}: {getattr(ours, key)} here, {getattr(theirs, key)} in {preset}")
    return problems


def check_inputs(work, name):
    """The same weights with activations described too: the description differs, and NVFP4 has a scale for each layer."""
    folder, plain = f"{work}/{name}-inputs", f"{work}/{name}"
    config = QuantizationConfig.model_validate(json.loads(Path(folder, "config.json").read_text())["quantization_config"])
    (scheme,) = config.config_groups.values()
    problems = differences(scheme, PRESETS[name].removesuffix("A16"))
    tensors, wanted = load(folder), load(plain)
    if name == "nvfp4":
        for module, amax in json.loads(Path(work, "amax.json").read_text()).items():
            # torch multiplies by the reciprocal, which may differ from the quotient in the last bit
            theirs = generate_gparam(-torch.tensor([amax]), torch.tensor([amax]))
            ours = tensors.get(module + ".input_global_scale", theirs)
            wanted[module + ".input_global_scale"] = ours if torch.allclose(ours, theirs, rtol=2e-7, atol=0) else theirs
    if set(tensors) != set(wanted):
        problems.append(f"tensors differ: {sorted(set(tensors) ^ set(wanted))}")
    else:
        problems += [f"{key} differs" for key in wanted if not torch.equal(
            tensors[key].view(torch.uint8), wanted[key].view(torch.uint8))]
    print("\n".join(f"{name}, inputs: {p}" for p in problems) or
          f"  compressed-tensors, {name}: activations as in the preset, {len(tensors)} tensors as expected")
    return problems


def check_mixed(original, work):
    """Several formats in one model: the package sorts each module into one group, whose preset is that format's, and
    decompresses it to the values of microscale's own arithmetic."""
    folder, wanted = f"{work}/mixed", {"attention": "FP8_DYNAMIC", "intermediate": "MXFP4", "output": "MXFP8"}
    config = QuantizationConfig.model_validate(json.loads(Path(folder, "config.json").read_text())["quantization_config"])
    problems, groups, modules = [], {}, modules_of(load(folder))
    with torch.device("meta"):
        model = AutoModel.from_config(AutoConfig.from_pretrained(original))
    for group in config.config_groups.values():
        for name, _ in match_named_modules(model, group.targets, config.ignore):
            if name in groups:
                problems.append(f"{name} is in two groups")
            groups[name] = group
    if set(groups) != set(modules):
        problems.append(f"configuration and tensors disagree on {sorted(set(groups) ^ set(modules))}")
    before, error, power = load(original), {}, {}
    for name in set(groups) & set(modules):
        group, state = groups[name], modules[name]
        preset = next((preset for part, preset in wanted.items() if part in name.split(".")[3]), "NVFP4A16")
        problems += [f"{name}: {p}" for p in differences(group, preset)]
        value = BaseCompressor.get_value_from_registry(group.format).decompress(state, group)["weight"]
        reference = before[name + ".weight"].double()
        error[preset] = error.get(preset, 0) + (value.double() - reference).square().sum().item()
        power[preset] = power.get(preset, 0) + reference.square().sum().item()
    ranges = {"FP8_DYNAMIC": (0.0004, 0.0011), "MXFP8": (0.0004, 0.0009), "MXFP4": (0.008, 0.015)}
    for preset, (low, high) in ranges.items():
        if not low < error.get(preset, 0) / power.get(preset, 1) < high:
            problems.append(f"{preset}: relative squared error {error.get(preset)} / {power.get(preset)}")
    print("\n".join(f"mixed: {p}" for p in problems) or
          "  compressed-tensors, mixed: " + ", ".join(f"{p} {100 * error[p] / power[p]:.4f} %" for p in sorted(error)))
    return problems


def check_budget(original, work):
    """A model whose formats a budget chose: each module has the format that the manifest records, the package decodes it
    bit for bit, what stays is ignored, and transformers loads and runs the folder."""
    folder, dense = f"{work}/budget", f"{work}/budget-bf16"
    config = QuantizationConfig.model_validate(json.loads(Path(folder, "config.json").read_text())["quantization_config"])
    choice = json.loads(json.loads(Path(folder, "microscale_manifest.json").read_text())["made_of"]["option choice"])
    chosen = {}
    for group in choice["groups"]:
        before, brace, members = group["name"].rstrip("}").partition("{")
        for member in members.split(",") if brace else [""]:
            chosen[before + member] = choice["menu"][group["chosen"]]
    problems, found, modules = [], {}, modules_of(load(folder))
    with torch.device("meta"):
        model = AutoModel.from_config(AutoConfig.from_pretrained(original))
    for group in config.config_groups.values():
        for name, _ in match_named_modules(model, group.targets, config.ignore):
            found[name] = group
    wanted = {name for name, format in chosen.items() if format != "bf16"}
    if set(found) != set(modules) or set(modules) != wanted & set(chosen):
        problems.append(f"config, tensors and choice disagree on {sorted(set(found) ^ set(modules) ^ wanted)[:6]}")
    presets, after = {**PRESETS, "fp8": "FP8_DYNAMIC"}, load(dense)
    for name in set(found) & set(modules):
        if chosen[name] in PRESETS:
            problems += [f"{name}: {p}" for p in differences(found[name], presets[chosen[name]])]
        state = modules[name]
        value = BaseCompressor.get_value_from_registry(found[name].format).decompress(state, found[name])["weight"]
        if not torch.equal(value.to(torch.bfloat16), after[name + ".weight"]):
            problems.append(f"{name}: other values than microscale's")
    counts = {format: sum(chosen[name] == format for name in chosen) for format in sorted(set(chosen.values()))}
    if len(counts) < 2:
        problems.append(f"the budget mixes only {counts}")
    ids = torch.arange(5, 37)[None]
    with torch.no_grad():
        ours, theirs = (AutoModel.from_pretrained(path, dtype=torch.bfloat16)(ids).last_hidden_state.float()
                        for path in (dense, folder))
    if not torch.allclose(ours, theirs, rtol=0.02, atol=0.02):
        problems.append(f"transformers' outputs differ by {(ours - theirs).abs().max().item()}")
    print("\n".join(f"budget: {p}" for p in problems) or
          f"  compressed-tensors, budget: {counts}, {choice['budget']}, equal bit for bit")
    return problems


def check_modelopt(work):
    """The package's own converter makes of ModelOpt's container what microscale writes as compressed-tensors."""
    targets, ignore = [r"re:.*encoder\.layer.*"], []
    theirs = ModelOptNvfp4Converter(ignore=ignore, targets=targets).process(load(f"{work}/modelopt"))
    ours, problems = load(f"{work}/nvfp4-inputs"), []
    if set(theirs) != set(ours):
        problems.append(f"names differ: {sorted(set(theirs) ^ set(ours))[:6]}")
    for name in set(theirs) & set(ours):
        a, b = theirs[name], ours[name]
        if name.endswith("_global_scale"):  # reciprocals, each rounded once more
            same = torch.allclose(a.reshape(-1), b.reshape(-1), rtol=3e-7, atol=0)
        else:
            same = torch.equal(a.view(torch.uint8), b.view(torch.uint8))
        if not same:
            problems.append(f"{name} differs")
    print("\n".join(f"modelopt: {p}" for p in problems) or
          f"  compressed-tensors, modelopt: its converter gives our {len(ours)} tensors")
    return problems


def check(original, work, name):
    quantized, dequantized = f"{work}/{name}", f"{work}/{name}-bf16"
    written = json.loads(Path(quantized, "config.json").read_text())["quantization_config"]
    config = QuantizationConfig.model_validate(written)
    (scheme,) = config.config_groups.values()
    compressor = BaseCompressor.get_value_from_registry(config.format)
    before, after = load(original), load(dequantized)
    modules = modules_of(load(quantized))
    problems = differences(scheme, PRESETS[name])

    expected = named_by_configuration(original, config)
    if set(modules) != expected:
        problems.append(f"configuration and tensors disagree on {sorted(set(modules) ^ expected)}")
    if set(before) != set(after):
        problems.append(f"dequantized folder differs in names: {sorted(set(before) ^ set(after))}")

    compared, error, power = 0, 0.0, 0.0
    for module, state in modules.items():
        theirs = compressor.decompress(state, scheme)["weight"]
        ours = after.get(module + ".weight")
        if ours is None or theirs.dtype != torch.bfloat16 or ours.dtype != theirs.dtype:
            problems.append(f"{module}: {theirs.dtype} there, {None if ours is None else ours.dtype} here")
            continue
        different = (theirs.view(torch.int16) != ours.view(torch.int16)).nonzero()
        if theirs.shape != ours.shape or len(different):
            row, col = different[0].tolist() if len(different) else (0, 0)
            problems.append(f"{module}: {len(different)} of {ours.numel()} elements differ, first at ({row}, "
                            f"{col}): {theirs[row, col].item()} there, {ours[row, col].item()} here")
        compared += ours.numel()
        reference = before[module + ".weight"].double()
        error += (theirs.double() - reference).square().sum().item()
        power += reference.square().sum().item()

    relative = error / power if power else float("nan")
    low, high = PLAUSIBLE[name]
    if not low < relative < high:
        problems.append(f"relative squared error {relative:.5f} is not between {low} and {high}")
    print("\n".join(f"{name}: {p}" for p in problems) or
          f"  compressed-tensors, {name}: {len(modules)} modules, {compared} elements equal bit for bit, "
          f"relative squared error {100 * relative:.4f} %")
    return problems


if __name__ == "__main__":
    failed = [check(*sys.argv[1:3], name) for name in sys.argv[3:]]
    failed += [check_inputs(sys.argv[2], name) for name in sys.argv[3:]]
    failed += [check_mixed(*sys.argv[1:3]), check_budget(*sys.argv[1:3]), check_modelopt(sys.argv[2])]
    sys.exit(any(failed))
