"""The experts of a checkpoint as gpt-oss was published: stacked, MXFP4 in *_blocks and *_scales."""

from __future__ import annotations

import glob
import os
from typing import Any

from torch import Tensor

from .. import _core


class GptOssFile:
    """By the name of the module that holds the experts of a layer."""

    def __init__(self, folder: str) -> None:
        from safetensors import safe_open

        self._files: dict[str, Any] = {}
        for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*.safetensors"))):
            file = safe_open(path, framework="pt")
            self._files.update(dict.fromkeys((k for k in file.keys() if ".experts." in k), file))

    def has(self, name: str) -> bool:
        wanted = ("gate_up_proj_blocks", "gate_up_proj_scales", "down_proj_blocks", "down_proj_scales")
        return all(f"{name}.{one}" in self._files for one in wanted)

    def _tensor(self, name: str) -> Tensor:
        return self._files[name].get_tensor(name)  # type: ignore[no-any-return]

    def read(self, name: str) -> tuple[list[list[_core.BlockTensor]], list[Tensor] | None]:
        """Of the gate, the up and the down projection: each expert's weights, and the biases of all. Rows of
        gate and up lie in turn."""
        both, down = (self._weights(f"{name}.{one}") for one in ("gate_up_proj", "down_proj"))
        every = [[_blocks(codes[part], scales[part]) for codes, scales in both] for part in (_EVEN, _ODD)]
        every.append([_blocks(codes, scales) for codes, scales in down])
        keys = [f"{name}.{one}_bias" for one in ("gate_up_proj", "down_proj")]
        if not all(key in self._files for key in keys):
            return every, None
        of_both, of_down = (self._tensor(key).float() for key in keys)
        return every, [of_both[:, _EVEN], of_both[:, _ODD], of_down]

    def _weights(self, name: str) -> list[tuple[Tensor, Tensor]]:
        """Codes (rows, bytes) and scales (rows, blocks) of each expert."""
        codes, scales = self._tensor(name + "_blocks").flatten(2), self._tensor(name + "_scales")
        return list(zip(codes, scales, strict=True))


_EVEN, _ODD = slice(0, None, 2), slice(1, None, 2)


def _blocks(codes: Tensor, scales: Tensor) -> _core.BlockTensor:
    return _core.BlockTensor.from_parts(codes.contiguous(), scales.contiguous(), format="mxfp4")
