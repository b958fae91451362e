"""ModelOpt and our files, both ways. What `quantize --container modelopt` wrote has the values that ModelOpt's tensor classes
decode from it; what ModelOpt itself quantizes and exports, of a small model, has those values when microscale reads it, and
`verify` finds nothing wrong. NOT RUN where nvidia-modelopt is not installed.

usage: check_modelopt.py MICROSCALE WORK FOLDER...      folders of WORK that `--container modelopt` wrote
"""
import contextlib
import importlib.metadata
import io
import subprocess
import sys
import warnings
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaConfig

warnings.simplefilter("ignore")
# Names of mtq's configurations.
EXPORTED = ["NVFP4_DEFAULT_CFG", "W4A16_NVFP4_CFG", "FP8_DEFAULT_CFG", "FP8_PER_CHANNEL_PER_TOKEN_CFG",
            "MXFP8_DEFAULT_CFG"]


def theirs(tensors, module, qtensor):
    """A layer's values in FP32 by ModelOpt's own decoding."""
    weight, scale = tensors[module + ".weight"], tensors[module + ".weight_scale"]
    if weight.dtype == torch.uint8:
        shape = torch.Size([weight.shape[0], 2 * weight.shape[1]])
        return qtensor.NVFP4QTensor(shape, torch.float32, weight).dequantize(
            torch.float32, scale=scale, double_scale=tensors[module + ".weight_scale_2"], block_sizes={-1: 16})
    if scale.dtype == torch.uint8:
        return qtensor.MXFP8QTensor(weight.shape, torch.float32, weight).dequantize(torch.float32, scale=scale)
    scale = scale.float().reshape(-1, 1) if scale.numel() > 1 else scale.float()
    return qtensor.FP8QTensor(weight.shape, torch.float32, weight).dequantize(torch.float32, scale=scale)


def compare(microscale, folder, qtensor):
    """Problems of one folder; prints what was compared."""
    dense = folder.with_name(folder.name + "-f32")
    subprocess.run([microscale, "dequantize", folder, "-o", dense, "--dtype", "f32"], check=True, capture_output=True)
    tensors, ours = load_file(folder / "model.safetensors"), load_file(dense / "model.safetensors")
    modules = [name.removesuffix(".weight_scale") for name in tensors if name.endswith(".weight_scale")]
    problems, values = [], 0
    for module in modules:
        wanted, got = theirs(tensors, module, qtensor), ours[module + ".weight"].float()
        values += got.numel()
        if not torch.equal(wanted, got):
            problems.append(f"{folder.name}: {module} has other values, by {(wanted - got).abs().max()}")
    if not modules:
        problems.append(f"{folder.name}: nothing is quantized in it")
    print(f"  {folder.name}: {len(modules)} layers, {values} values compared bit for bit")
    return problems


def export(name, folder):
    import modelopt.torch.quantization as mtq
    from modelopt.torch.export import export_hf_checkpoint
    torch.manual_seed(len(name))
    config = LlamaConfig(vocab_size=96, hidden_size=128, intermediate_size=256, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, architectures=["LlamaForCausalLM"])
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    model = mtq.quantize(model, getattr(mtq, name), lambda model: model(torch.arange(96).reshape(1, -1)))
    export_hf_checkpoint(model, export_dir=folder)


def main():
    microscale, work = sys.argv[1], Path(sys.argv[2])
    try:
        from modelopt.torch.quantization import qtensor
    except ImportError as missing:
        print(f"  nvidia-modelopt: NOT RUN: {missing}")
        return 0
    print(f"  nvidia-modelopt, {importlib.metadata.version('nvidia-modelopt')}:")
    problems = []
    for folder in sys.argv[3:]:
        problems += compare(microscale, work / folder, qtensor)
    for name in EXPORTED:
        folder = work / ("by-" + name.lower().removesuffix("_cfg"))
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            export(name, folder)
        problems += compare(microscale, folder, qtensor)
        done = subprocess.run([microscale, "verify", folder], capture_output=True, text=True)
        if done.returncode:
            problems.append(f"verify of {folder.name}: {done.stdout}{done.stderr}")
    print("\n".join(problems))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
