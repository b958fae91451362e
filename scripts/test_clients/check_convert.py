"""Puts quantized folders into other containers with `microscale convert` and decodes both in torch, by the definition
of each container: codes and block scales are the same bytes, global scales the reciprocals, and every value is the same;
MXFP4 as NVFP4 too. gpt-oss's experts are decoded by transformers.

usage: check_convert.py MICROSCALE WORK      reads WORK/nvfp4, WORK/mxfp4 and WORK/mxfp8
"""
import json
import subprocess
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def convert(program, source, target, container, *options):
    done = subprocess.run([program, "convert", source, "-o", target, "--to", container, "--json", *options],
                          check=True, capture_output=True, text=True)
    report = json.loads(done.stdout)
    subprocess.run([program, "verify", target], check=True, capture_output=True)
    return report, load_file(target / "model.safetensors")


def four_bits(codes, scales, multiplier=None):
    """Packed codes [N, K / 2] under E8M0 or E4M3 scales: FP32."""
    pairs = torch.stack((codes & 15, codes >> 4), -1).flatten(1).long()
    if scales.dtype == torch.uint8:
        steps = torch.exp2(scales.float() - 127)
    else:
        steps = scales.float() * multiplier
    return E2M1[pairs] * steps.repeat_interleave(pairs.shape[1] // scales.shape[1], 1)


def modules(tensors, ending):
    return [name.removesuffix(ending) for name in tensors if name.endswith(ending)]


def check_nvfp4(program, work, place):
    before = load_file(work / "nvfp4" / "model.safetensors")
    report, after = convert(program, work / "nvfp4", place / "nvfp4", "modelopt")
    names = modules(before, ".weight_packed")
    for name in names:
        assert torch.equal(before[name + ".weight_packed"], after[name + ".weight"]), name
        assert torch.equal(before[name + ".weight_scale"].view(torch.uint8),
                           after[name + ".weight_scale"].view(torch.uint8)), name
        assert torch.equal(1 / before[name + ".weight_global_scale"], after[name + ".weight_scale_2"].view(1)), name
    assert report["same_values"] and report["weights"] == len(names) and report["blocks_cast"] == 0
    _, back = convert(program, place / "nvfp4", place / "nvfp4-back", "compressed-tensors")
    assert back.keys() == before.keys()
    for name, tensor in before.items():
        assert torch.equal(back[name].view(torch.uint8), tensor.view(torch.uint8)), name
    print(f"  torch, {torch.__version__}: {len(names)} NVFP4 weights to ModelOpt and back, byte for byte")


def check_cast(program, work, place):
    before = load_file(work / "mxfp4" / "model.safetensors")
    report, after = convert(program, work / "mxfp4", place / "mxfp4", "modelopt")
    blocks = other = 0
    for name in modules(before, ".weight_packed"):
        wanted = four_bits(before[name + ".weight_packed"], before[name + ".weight_scale"])
        found = four_bits(after[name + ".weight"], after[name + ".weight_scale"], after[name + ".weight_scale_2"])
        blocks += wanted.numel() // 16
        other += (wanted != found).view(-1, 16).any(1).sum().item()
    assert report["blocks_cast"] == blocks and report["blocks_searched"] >= other, report
    assert report["same_values"] == (report["blocks_searched"] == 0)
    print(f"  torch: {blocks} blocks of MXFP4 as NVFP4, {other} with other values, "
          f"{report['blocks_searched']} by search")


def check_mxfp8(program, work, place):
    before = load_file(work / "mxfp8" / "model.safetensors")
    report, after = convert(program, work / "mxfp8", place / "mxfp8", "modelopt")
    assert report["same_values"] and before.keys() == after.keys()
    for name, tensor in before.items():
        assert torch.equal(after[name].view(torch.uint8), tensor.view(torch.uint8)), name
    print("  torch: MXFP8 to ModelOpt, byte for byte")


def check_gpt_oss(program, place):
    name = "model.layers.0.mlp.experts."
    (place / "gpt-oss").mkdir(parents=True)
    blocks, scales = {}, {}
    for part, rows, width in (("gate_up_proj", 192, 64), ("down_proj", 64, 96)):
        blocks[part] = torch.randint(0, 256, (3, rows, width // 32, 16), dtype=torch.uint8)
        scales[part] = torch.randint(116, 125, (3, rows, width // 32), dtype=torch.uint8)
    tensors = {name + part + ending: values[part].contiguous()
               for ending, values in (("_blocks", blocks), ("_scales", scales)) for part in blocks}
    save_file(tensors, place / "gpt-oss" / "model.safetensors")
    (place / "gpt-oss" / "config.json").write_text(json.dumps(
        {"model_type": "gpt_oss", "hidden_size": 64, "architectures": ["GptOssForCausalLM"]}))
    report, after = convert(program, place / "gpt-oss", place / "gpt-oss-nvfp4", "modelopt", "--exact")
    assert report["same_values"] and report["blocks_searched"] == 0
    wanted = convert_moe_packed_tensors(blocks["gate_up_proj"], scales["gate_up_proj"]).float()  # [E, K, N]
    for expert in range(3):
        for first, part in enumerate(("gate_proj", "up_proj")):
            module = f"{name}{expert}.{part}"
            found = four_bits(after[module + ".weight"], after[module + ".weight_scale"],
                              after[module + ".weight_scale_2"])
            assert torch.equal(found, wanted[expert].T[first::2]), module
    print(f"  transformers, {transformers.__version__}: its gpt-oss experts are our NVFP4 ones")


if __name__ == "__main__":
    torch.manual_seed(0)
    microscale, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    check_nvfp4(microscale, folder, folder / "convert")
    check_cast(microscale, folder, folder / "convert")
    check_mxfp8(microscale, folder, folder / "convert")
    check_gpt_oss(microscale, folder / "convert")
