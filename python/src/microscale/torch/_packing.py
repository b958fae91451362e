"""The bytes of packed weights: how many there are, and the way back to codes and scales.

On the CPU they are a header of 64 bytes, rows of codes, and rows of scales, so the way back is a view. On a
GPU they are tiles of 16 rows by 64 elements in the order of a warp's lanes.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

BITS = {"nvfp4": 4, "mxfp4": 4, "mxfp8_e4m3": 8, "mxfp8_e5m2": 8}
"""Formats of weights, and the bits of an element."""


def block_of(format: str) -> int:
    """Elements that share a scale."""
    return 16 if format == "nvfp4" else 32


def _up(size: int, step: int) -> int:
    return (size + step - 1) // step * step


def packed_bytes(n: int, k: int, matrices: int, gated: bool, format: str, device_type: str) -> int:
    """What pack_weights makes of (n, k) weights. The sizes may be symbolic."""
    bits, block = BITS[format], block_of(format)
    if device_type == "cuda":
        row_tiles = (n + 7) // 8 if gated else (n + 15) // 16
        return matrices * row_tiles * ((k + 63) // 64) * (128 * bits + 16 * (64 // block))
    lines = 2 * n if gated else n
    return 64 + matrices * (_up(lines * (k * bits // 8), 64) + _up(lines * (k // block), 64))


def unpack(
    packed: Tensor, n: int, k: int, matrices: int, gated: bool, format: str
) -> list[tuple[Tensor, Tensor]]:
    """Codes (matrices, n, bytes of a row) and scales (matrices, n, blocks of a row), both uint8, of the
    weights or, where gated, of gate and up. On the CPU they are views. On a GPU, where a block's scale is
    zero, so are its codes."""
    plain = _plain_of_tiles if packed.device.type == "cuda" else _plain_of_rows
    return plain(packed, n, k, matrices, gated, format)


def _plain_of_rows(
    packed: Tensor, n: int, k: int, matrices: int, gated: bool, format: str
) -> list[tuple[Tensor, Tensor]]:
    every = 2 if gated else 1
    code_row, scale_row = k * BITS[format] // 8, k // block_of(format)
    codes_end = n * every * code_row
    scales_at = _up(codes_end, 64)
    body = packed[64:].view(matrices, -1)
    codes = body[:, :codes_end].unflatten(1, (n, every, code_row))
    scales = body[:, scales_at : scales_at + n * every * scale_row].unflatten(1, (n, every, scale_row))
    return [(codes[:, :, part], scales[:, :, part]) for part in range(every)]


def _plain_of_tiles(
    packed: Tensor, n: int, k: int, matrices: int, gated: bool, format: str
) -> list[tuple[Tensor, Tensor]]:
    bits, count = BITS[format], 64 // block_of(format)
    across = (k + 63) // 64
    tiles = packed.view(matrices, -1, across, 128 * bits + 16 * count)
    codes = tiles[..., : 128 * bits].contiguous()
    codes = (
        _codes_of_4_bits(codes) if bits == 4 else _codes_of_8_bits(codes)
    )  # matrix, tile, half, row, bytes
    scales = tiles[..., 128 * bits :].contiguous()
    if format == "nvfp4":
        scales = _placed_scales(scales)
    down = scales.shape[1]
    scales = scales.view(matrices, down, across, 8, count, 2).permute(0, 1, 5, 3, 2, 4)
    scales = scales.reshape(matrices, down, 2, 8, across * count)
    width, blocks = k * bits // 8, k // block_of(format)
    if gated:  # a tile's upper half is the gate's
        return [
            (
                codes[:, :, part].flatten(1, 2)[:, :n, :width],
                scales[:, :, part].flatten(1, 2)[:, :n, :blocks],
            )
            for part in range(2)
        ]
    return [(codes.flatten(1, 3)[:, :n, :width], scales.flatten(1, 3)[:, :n, :blocks])]


def _codes_of_4_bits(tiles: Tensor) -> Tensor:
    matrices, down, across, _ = tiles.shape
    word = tiles.view(torch.int32).to(torch.int64) & 0xFFFFFFFF
    first = word >> 3 | (word & 7) << 29
    second = word >> 6 | (word & 63) << 26
    nibbles = (
        (word & 0x80008000) >> 12
        | (word & 0x01C001C0) >> 6
        | (first & 0x80008000) >> 4
        | (first & 0x01C001C0) << 2
        | (second & 0x80008000) >> 8
        | (second & 0x01C001C0) >> 2
        | (word & 0x00080008) << 12
        | (word & 0x00030003) << 13
        | (word & 0x00100010) << 8
    )
    # A word is of lane 4 g + t and instruction s. Of its bytes, the upper two have the odd elements of k; of
    # each two, the second has rows g + 8; a byte's upper half has the elements eight further.
    nibbles = nibbles.view(matrices, down, across, 8, 4, 4)
    parts = [nibbles >> 8 * byte & 0xFF for byte in range(4)]
    low = torch.stack([parts[row] & 15 | (parts[2 + row] & 15) << 4 for row in range(2)], -1)
    high = torch.stack([parts[row] >> 4 | (parts[2 + row] >> 4) << 4 for row in range(2)], -1)
    both = torch.stack([low, high], -1).to(
        torch.uint8
    )  # matrix, down, across, g, t, s, half of the tile, eight
    ordered = both.permute(0, 1, 6, 3, 2, 5, 7, 4)
    return ordered.reshape(matrices, down, 2, 8, across * 32)


def _codes_of_8_bits(tiles: Tensor) -> Tensor:
    matrices, down, across, _ = tiles.shape
    # step / 2, g, t, step % 2, eight, half of the tile, neighbour
    parts = tiles.view(matrices, down, across, 2, 8, 4, 2, 2, 2, 2)
    ordered = parts.permute(0, 1, 8, 4, 2, 3, 6, 7, 5, 9)
    return ordered.reshape(matrices, down, 2, 8, across * 64)


def _placed_scales(scales: Tensor) -> Tensor:
    word = scales.view(torch.int32).to(torch.int64) & 0xFFFFFFFF
    four = [word >> 4 & 0xFF, word >> 20 & 0xFF, word >> 12 & 0xFF, word >> 28 | (word & 15) << 4]
    return _ue4m3_of_placed(scales.device)[torch.stack(four, -1)].reshape(scales.shape)


@cache
def _ue4m3_of_placed(device: torch.device) -> Tensor:
    """By the byte of a tile: the UE4M3 scale that it stands for."""
    table = [0] * 256
    for scale in range(1, 128):
        shift = 1 if scale >= 4 else 2 if scale >= 2 else 3  # of subnormals
        placed = (16 - shift) << 3 | (scale << shift & 7) if scale < 8 else scale + (15 << 3)
        table[31 << 3 | 1 if scale == 127 else placed] = scale
    return torch.tensor(table, dtype=torch.uint8, device=device)
