"""Straightforward FP32 transcriptions of tools that cannot run here (CUDA kernels) or are not on PyPI.

These are formulas read from public sources, written again, not the tools' output. Approximate reciprocals
(rcp.approx.ftz) are modelled by correctly rounded division with subnormal operands and results flushed.
"""

import ml_dtypes
import numpy as np

from inputs import f32_bits, from_bits

F32 = np.float32
FLT_MAX = np.finfo(F32).max
SIXTH = F32(1) / F32(6)


def e2m1(values):
    """cvt.rn.satfinite.e2m1: nearest even, saturating, NaN to +6, sign of zero kept."""
    values = np.asarray(values, F32)
    magnitude = np.abs(values)
    code = np.zeros(values.shape, np.uint8)
    for i, bound in enumerate([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0]):
        code += (magnitude >= bound if i % 2 else magnitude > bound).astype(np.uint8)
    code |= (np.signbit(values) << 3).astype(np.uint8)
    return np.where(np.isnan(values), np.uint8(7), code)


def fp8(values, kind):
    """cvt.rn.satfinite to E4M3 or E5M2: saturating, NaN to 0x7F."""
    dtype, limit = {"e4m3": (ml_dtypes.float8_e4m3fn, 448), "e5m2": (ml_dtypes.float8_e5m2, 57344)}[kind]
    values = np.asarray(values, F32)
    codes = np.clip(values, -limit, limit).astype(dtype).view(np.uint8)
    return np.where(np.isnan(values), np.uint8(0x7F), codes)


def fp8_value(codes):
    return np.asarray(codes, np.uint8).view(ml_dtypes.float8_e4m3fn).astype(F32)


def amax_dropping_nan(values):
    return np.nan_to_num(np.abs(values), nan=0.0, posinf=np.inf).max(axis=-1)


def flush(value):
    return F32(0) if 0 < abs(value) < 2.0**-126 else F32(value)


def rcp_ftz(value):
    return flush(F32(1) / flush(value))


def e8m0_round_up(value):
    """cvt.rp.satfinite.ue8m0: the power of two at or above, infinity to 254, NaN to 255."""
    if np.isnan(value):
        return 255
    if value <= 2.0**-127:
        return 0
    mantissa, exponent = np.frexp(np.float64(min(value, FLT_MAX)))  # value = mantissa * 2^exponent, [0.5, 1)
    return min(int(exponent) - (mantissa == 0.5) + 127, 254)


def power(exponent):
    return F32(np.ldexp(1.0, exponent))


def per_block(function):
    """Applies function(values of one block, its amax without NaN) -> (scale byte, codes) to all blocks."""
    def run(values, dtype):
        with np.errstate(all="ignore"):
            rows = [function(row.astype(F32), amax_dropping_nan(row)) for row in values]
        return np.array([[scale] for scale, _ in rows], np.uint8), np.stack([codes for _, codes in rows])

    return run


# Transformer Engine: MXFP8 rowwise cast, NVFP4 1x16

def te_mxfp8(kind):
    limit = {"e4m3": F32(448), "e5m2": F32(57344)}[kind]

    def block(values, amax):
        byte = e8m0_round_up(amax * (F32(1) / limit))
        return byte, fp8(values * power(127 - byte), kind)

    return per_block(block)


def te_encode_scale(amax):
    encode = np.minimum(F32(2688) / F32(amax), FLT_MAX)
    return F32(1) if amax == 0 or encode == 0 else encode


def te_nvfp4(values, dtype, amax):
    own, scales, codes = te_encode_scale(amax), [], []
    for block in values.reshape(2, 16):
        scale = fp8(np.minimum(amax_dropping_nan(block) * (own * SIXTH), FLT_MAX), "e4m3")
        inverse = np.minimum(F32(1) / (fp8_value(scale) * (F32(1) / own)), FLT_MAX)
        scales.append(scale)
        codes.append(e2m1(block * inverse))
    return own, np.array(scales, np.uint8), np.concatenate(codes)


# FlashInfer: exact NVFP4 path; MXFP4 and MXFP8 of the CUDA kernels

def flashinfer_mxfp4(values, amax):
    scaled = amax * SIXTH
    byte = e8m0_round_up(scaled)
    inverse = F32(0) if scaled == 0 else F32(1) if byte == 0 else power(127 - byte)
    return byte, e2m1(values * inverse)


def flashinfer_mxfp8(values, amax):
    byte = e8m0_round_up(amax * (F32(1) / F32(448)))
    return byte, fp8(values * (F32(0) if byte == 0 else rcp_ftz(power(byte - 127))), "e4m3")


def flashinfer_nvfp4(values, dtype, amax):
    own, scales, codes = te_encode_scale(amax), [], []
    for block in values.reshape(2, 16):
        largest = amax_dropping_nan(block)
        scale = fp8(largest * (own * SIXTH) if largest != 0 else F32(0), "e4m3")
        inverse = F32(1) / (fp8_value(scale) * (F32(1) / own)) if largest != 0 else F32(0)
        scales.append(scale)
        codes.append(e2m1(block * inverse))
    return own, np.array(scales, np.uint8), np.concatenate(codes)


# vLLM: NVFP4 and MXFP4 of csrc, MXFP8 of the PyTorch fallback

def vllm_nvfp4(values, dtype, amax):
    own, scales, codes = te_encode_scale(amax), [], []
    for block in values.reshape(2, 16):
        scale = fp8(own * (amax_dropping_nan(block) * SIXTH), "e4m3")
        value = fp8_value(scale)
        inverse = rcp_ftz(value * rcp_ftz(own)) if value != 0 else F32(0)
        scales.append(scale)
        codes.append(e2m1(block * inverse))
    return own, np.array(scales, np.uint8), np.concatenate(codes)


def vllm_mxfp4(values, amax):
    exponent = int((int(f32_bits(amax)) + (1 << 21)) >> 23) & 0xFF
    byte = min(max(exponent - 2, 0), 254)
    scale = from_bits(np.uint32(byte << 23))
    return byte, e2m1(values * (F32(1) / scale if byte else F32(0)))


def vllm_mxfp8(values, dtype):
    import torch

    x = torch.from_numpy(np.ascontiguousarray(values))
    amax = x.abs().amax(dim=-1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)
    exponent = (torch.floor(torch.log2(amax)) + 127.0).clamp(0, 254)
    codes = (x / torch.exp2(exponent - 127.0)).to(torch.float8_e4m3fn)
    return exponent.to(torch.uint8).numpy(), codes.view(torch.uint8).numpy()


# llama.cpp: the C quantizers

E2M1_DOUBLED = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], F32)


def ggml_codes(values, half_scale):
    """First of the codes with the least |code * scale - x|; code 0 for NaN."""
    error = np.abs(E2M1_DOUBLED * half_scale - values[:, None])
    best = np.argmin(np.where(np.isnan(error), np.inf, error), axis=1)
    return np.where(np.isnan(values), 0, best).astype(np.uint8)


def llama_cpp_mxfp4(values, amax):
    byte = int(np.clip(np.floor(np.log2(amax)) - 2 + 127, 0, 254)) if amax > 0 else 0
    return byte, ggml_codes(values, power(byte - 128))


def llama_cpp_nvfp4(values, dtype, amax):
    from tools import gguf_ue4m3

    scales, codes = [], []
    for block in values.reshape(2, 16):
        scale = gguf_ue4m3([amax_dropping_nan(block) / F32(6)])[0]
        scales.append(scale)
        codes.append(ggml_codes(block, fp8_value(scale) * F32(0.5)))
    return 1.0, np.array(scales, np.uint8), np.concatenate(codes)


# microxcaling: _quantize_mx with its defaults (floor scale, round="nearest"), FP32 tensors

def microxcaling(kind):
    exponent_bits, mantissa_bits, emax, limit = {"e2m1": (2, 3, 2, 6.0), "e4m3": (4, 5, 8, 448.0),
                                                 "e5m2": (5, 4, 15, 57344.0), "e2m3": (2, 5, 2, 7.5),
                                                 "e3m2": (3, 4, 4, 28.0), "int8": (0, 8, 0, 127 / 64)}[kind]

    def block(values, _):
        amax = np.abs(values).max()
        shared = np.floor(np.log2(amax + F32(2.0**-126) * F32(amax == 0))) - F32(emax)
        shared = F32(np.nan) if shared > 127 or np.isnan(shared) else max(shared, F32(-127))
        scaled = values / (F32(2)**shared)
        if exponent_bits:
            own = np.floor(np.log2(np.abs(scaled) + (scaled == 0).astype(F32)))
            own = np.maximum(own, 2 - 2**(exponent_bits - 1))
        else:
            own = F32(0)
        shift = F32(2.0**(mantissa_bits - 2))
        rounded = np.sign(scaled) * np.floor(np.abs(scaled / F32(2)**own * shift) + F32(0.5))
        result = np.clip(rounded / shift * F32(2)**own, -limit, limit).astype(F32)
        return (255 if np.isnan(shared) else int(shared) + 127), exact_codes(result, kind)

    return per_block(block)


def exact_codes(values, kind):
    """Codes of values that are exact in the element type; NaN, which most types cannot hold, as 0."""
    if kind == "int8":
        return np.nan_to_num(values * 64).astype(np.int8).view(np.uint8)
    dtype = {"e2m1": ml_dtypes.float4_e2m1fn, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
             "e2m3": ml_dtypes.float6_e2m3fn, "e3m2": ml_dtypes.float6_e3m2fn}[kind]
    codes = np.nan_to_num(values).astype(dtype).view(np.uint8)
    return np.where(np.isnan(values), np.uint8(0), codes)
