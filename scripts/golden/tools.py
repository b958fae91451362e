"""What the installed tools themselves compute on a CPU, one block of input at a time.

Each function takes FP32 values of shape [cases, 32] that are exact in `dtype` and returns scale bytes and
codes (one per element). NVFP4 functions take one case and its tensor's magnitude, and return the tool's own
global number first.
"""

import importlib.metadata
import warnings

import numpy as np
import torch

warnings.filterwarnings("ignore")
TORCH_TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


def version(*packages):
    return " ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)


def tensor(values, dtype):
    """By bits: a conversion would rewrite NaN."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    if dtype == "f32":
        return torch.from_numpy(bits.view(np.float32))
    if dtype == "f16":
        return torch.from_numpy(bits.view(np.float32).astype(np.float16))
    return torch.from_numpy((bits >> 16).astype(np.uint16)).view(torch.bfloat16)


def as_bytes(t):
    return t.contiguous().view(torch.uint8).numpy()


def nibbles(packed):
    """Packed bytes, even element low, to one code per byte."""
    packed = as_bytes(packed)
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(*packed.shape[:-1], -1)


# torchao

def torchao_mx(element, mode):
    from torchao.prototype.mx_formats.config import ScaleCalculationMode
    from torchao.prototype.mx_formats.mx_tensor import to_mx

    types = {"e2m1": torch.float4_e2m1fn_x2, "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2,
             "e2m3": "fp6_e2m3", "e3m2": "fp6_e3m2"}

    def run(values, dtype):
        scale, codes = to_mx(tensor(values, dtype), types[element], 32, ScaleCalculationMode[mode])
        return as_bytes(scale).reshape(-1, 1), nibbles(codes) if element == "e2m1" else as_bytes(codes)

    return run


def torchao_nvfp4(values, dtype, amax):
    from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize, per_tensor_amax_to_scale

    own = per_tensor_amax_to_scale(torch.tensor(amax, dtype=TORCH_TYPES[dtype]))
    scales, codes = nvfp4_quantize(tensor(values[None], dtype), 16, own)
    return own.item(), as_bytes(scales)[0], nibbles(codes)[0]


def torchao_nvfp4_single_level(values, dtype, amax):
    from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize

    scales, codes = nvfp4_quantize(tensor(values[None], dtype), 16, None)
    return 1.0, as_bytes(scales)[0], nibbles(codes)[0]


# compressed-tensors: scales as the min/max observers of llm-compressor ask for them

def compressed_tensors_scheme(name):
    from compressed_tensors.quantization import preset_name_to_scheme

    return preset_name_to_scheme(name, ["Linear"])


def compressed_tensors_mx(name):
    def run(values, dtype):
        from compressed_tensors.compressors import BaseCompressor
        from compressed_tensors.quantization.utils import calculate_qparams

        scheme = compressed_tensors_scheme(name)
        weight = tensor(values, dtype)
        low, high = torch.amin(weight, -1, keepdim=True), torch.amax(weight, -1, keepdim=True)
        scale, _ = calculate_qparams(low, high, scheme.weights)
        kind = "mxfp4-pack-quantized" if name.startswith("MXFP4") else "mxfp8-quantized"
        compressor = BaseCompressor.get_value_from_registry(kind)
        out = compressor.compress({"weight": weight, "weight_scale": scale.to(weight.dtype)}, scheme)
        codes = nibbles(out["weight_packed"]) if "weight_packed" in out else as_bytes(out["weight"])
        return as_bytes(out["weight_scale"]), codes

    return run


def compressed_tensors_nvfp4(values, dtype, amax):
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

    scheme = compressed_tensors_scheme("NVFP4A16")
    limit = torch.tensor(amax, dtype=TORCH_TYPES[dtype])
    own = generate_gparam(-limit, limit)
    weight = tensor(values[None], dtype)
    groups = weight.unflatten(-1, (2, 16))
    low, high = torch.amin(groups, -1), torch.amax(groups, -1)
    scale, _ = calculate_qparams(low, high, scheme.weights, global_scale=own)
    compressor = BaseCompressor.get_value_from_registry("nvfp4-pack-quantized")
    module = {"weight": weight, "weight_scale": scale.to(weight.dtype), "weight_global_scale": own}
    out = compressor.compress(module, scheme)
    return own.item(), as_bytes(out["weight_scale"])[0], nibbles(out["weight_packed"])[0]


# ModelOpt

def modelopt_mxfp4(values, dtype):
    from modelopt.torch.quantization.qtensor import MXFP4QTensor

    q, scale = MXFP4QTensor.quantize(tensor(values, dtype), 32)
    return as_bytes(scale).reshape(-1, 1), nibbles(q._quantized_data)


def modelopt_mxfp8(values, dtype):
    from modelopt.torch.quantization.qtensor import MXFP8QTensor

    q, scale = MXFP8QTensor.quantize(tensor(values, dtype))
    return as_bytes(scale).reshape(-1, 1), as_bytes(q._quantized_data)


def modelopt_nvfp4(values, dtype, amax):
    from modelopt.torch.quantization.qtensor import NVFP4QTensor

    own = NVFP4QTensor.get_weights_scaling_factor_2(torch.tensor([amax], dtype=TORCH_TYPES[dtype]))
    q, scale, _ = NVFP4QTensor.quantize(tensor(values[None], dtype), 16, weights_scaling_factor_2=own)
    return own.item(), as_bytes(scale)[0], nibbles(q._quantized_data)[0]


# gguf (llama.cpp's Python package)

def gguf_mxfp4(values, dtype):
    import gguf

    with np.errstate(all="ignore"):
        raw = gguf.quants.quantize(np.ascontiguousarray(values), gguf.GGMLQuantizationType.MXFP4)
    raw = raw.reshape(-1, 17)
    return raw[:, :1], np.concatenate([raw[:, 1:] & 15, raw[:, 1:] >> 4], axis=1)


def gguf_ue4m3(values):
    import gguf

    return gguf.quants.NVFP4.fp32_to_ue4m3(np.asarray(values, np.float32))
