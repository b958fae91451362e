"""The bytes of packed weights: their number, and the way back to codes and scales, of the CPU's form and a
GPU's."""

import os
import subprocess
import sys

import pytest
import torch

import microscale as ms
import microscale.torch  # noqa: F401
from microscale.torch import _packing

SHAPES = [(48, 128), (50, 96), (1, 32), (200, 64), (0, 64)]


def all_codes(n, k, format, seed=0):
    """Any bytes, but for scales that are NaN or zero."""
    g = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 256, (n, k * _packing.BITS[format] // 8), generator=g, dtype=torch.uint8)
    scales = torch.randint(1, 127, (n, k // _packing.block_of(format)), generator=g, dtype=torch.uint8)
    return codes, scales


@pytest.mark.parametrize("format", list(_packing.BITS))
@pytest.mark.parametrize("shape", SHAPES)
def test_of_the_cpu(shape, format):
    n, k = shape
    parts = [all_codes(n, k, format, seed) for seed in range(2)]
    for given in (parts[:1], parts):
        packed = torch.ops.microscale.pack_weights(
            *given[0], format, *(given[1] if len(given) == 2 else ())
        )
        assert packed.numel() == _packing.packed_bytes(n, k, 1, len(given) == 2, format, "cpu")
        for (codes, scales), (c, s) in zip(
            _packing.unpack(packed, n, k, 1, len(given) == 2, format), given, strict=True
        ):
            assert torch.equal(codes[0], c) and torch.equal(scales[0], s)
            assert (
                packed.numel() == 0
                or codes.untyped_storage().data_ptr() == packed.untyped_storage().data_ptr()
            )
    matrices = [torch.stack(both) for both in zip(*parts, strict=True)]
    packed = torch.ops.microscale.pack_weights(*matrices, format)
    assert packed.numel() == _packing.packed_bytes(n, k, 2, False, format, "cpu")
    for part, found in zip(matrices, _packing.unpack(packed, n, k, 2, False, format)[0], strict=True):
        assert torch.equal(part, found)


def check_gpu_form():
    """On the emulated GPU, whose arrays are DeviceArrays."""
    for format in _packing.BITS:
        for n, k in SHAPES[:4]:
            parts = [all_codes(n, k, format, seed) for seed in range(2)]
            blocks = []
            for codes, scales in parts:
                on_device = [ms.DeviceArray.from_host(tensor.numpy()) for tensor in (codes, scales)]
                one = ms.DeviceArray.from_host(torch.ones(1).numpy()) if format == "nvfp4" else None
                blocks.append(ms.BlockTensor.from_parts(*on_device, one, format=format))
            for packed, given in (
                (ms.pack_weights(blocks[0]), parts[:1]),
                (ms.pack_gated_weights(*blocks), parts),
            ):
                flat = torch.from_numpy(packed.bytes.numpy())
                gated = len(given) == 2
                assert flat.numel() == _packing.packed_bytes(n, k, 1, gated, format, "cuda"), (
                    format,
                    n,
                    k,
                    gated,
                )
                found = _packing._plain_of_tiles(flat, n, k, 1, gated, format)
                for (codes, scales), (c, s) in zip(found, given, strict=True):
                    assert torch.equal(codes[0], c), (format, n, k, gated, "codes")
                    assert torch.equal(scales[0], s), (format, n, k, gated, "scales")
    print("checked")


def test_of_a_gpu():
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "MICROSCALE_BACKEND": "emulator-sm90"})  # fmt: skip
    assert done.stdout.strip() == "checked", done.stderr


if __name__ == "__main__":
    check_gpu_form()


def test_another_default_type_changes_nothing():
    """As of engines that set torch's default to bfloat16."""
    torch.manual_seed(0)
    weight = torch.randn(32, 64)
    for format in ("nvfp4", "mxfp4"):
        wanted = microscale.torch.Linear.from_linear(_linear_of(weight), format).state_dict()
        torch.set_default_dtype(torch.bfloat16)
        try:
            got = microscale.torch.Linear.from_linear(_linear_of(weight), format).state_dict()
        finally:
            torch.set_default_dtype(torch.float32)
        assert all(
            torch.equal(got[name].view(torch.uint8), wanted[name].view(torch.uint8)) for name in wanted
        )


def _linear_of(weight):
    linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    linear.weight = torch.nn.Parameter(weight)
    return linear
