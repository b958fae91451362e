"""What the layers of a model are called in its checkpoint."""

from __future__ import annotations

import re
from typing import Any

from torch import nn

from ._block_weights import BlockWeights, readable
from ._experts import NAME, WORDS, folder_of

ONE_BY_ONE = re.compile(r"(.*experts)\.(\d+)\.(.+)$")


class LayerNames:
    """Names in the checkpoint; those of the model, where it lies in memory and came from no folder."""

    def __init__(self, model: nn.Module, weights: BlockWeights | None) -> None:
        if weights is None:
            folder = folder_of(model)
            if folder is not None and readable(folder):
                parameter = next(model.parameters())
                weights = BlockWeights(model, folder, parameter.dtype, parameter.device)
        self._weights = weights

    def _sources(self, name: str) -> list[str]:
        return [] if self._weights is None else self._weights.sources(name)

    def linear(self, name: str) -> list[str]:
        """Several, where the model has one layer for what are several in the file."""
        sources = [one.removesuffix(".weight") for one in self._sources(name + ".weight")]
        return sources or [name]

    def experts(self, name: str, module: Any) -> list[tuple[str, str, str]]:
        """Of each expert of a module of stacked ones: gate, up and down projection."""
        count = len(next(p for key, p in module._parameters.items() if key.endswith("_proj")))
        base, found = name, dict[tuple[int, int], str]()
        for key in module._parameters:
            sources = self._sources(f"{name}.{key}")
            for source in sources:
                one = NAME.match(source)
                if one:
                    found[int(one[3]), WORDS[one[4]]] = source.removesuffix(".weight")
            if len(sources) == 1 and key.endswith("_proj"):
                base = sources[0].rpartition("." + key)[0] or name
        words = ("gate_proj", "up_proj", "down_proj")
        every = []
        for e in range(count):
            gate, up, down = (found.get((e, i), f"{base}.{e}.{word}") for i, word in enumerate(words))
            every.append((gate, up, down))
        return every
