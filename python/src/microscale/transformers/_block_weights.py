"""Weights of one block at a time, out of a folder into a model whose parameters are on the meta device."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import CONFIG_MAPPING, AutoConfig, AutoModelForCausalLM, __version__
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import (
    WeightConverter,
    WeightRenaming,
    convert_and_load_state_dict_in_model,
    rename_source_key,
)
from transformers.modeling_utils import LoadStateDictConfig
from transformers.utils import logging

from .. import _core
from .._checkpoint import open_checkpoint
from ._experts import Layout

Chosen = Callable[[str], bool]
"""Whether a parameter, by its name in the model, is wanted."""

_DTYPES = {
    "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
    "BOOL": torch.bool,
}  # fmt: skip
_LEFTOVERS = (
    "_packed",
    "_scale",
    "_scale_2",
    "_scale_inv",
    "_global_scale",
    "_blocks",
    "_scales",
    "qweight",
    "qzeros",
)
"""Ends of the names of what only stands beside codes that the folder's reader does not decode in place."""


_MORE: dict[str, Any] = {"tp_plan": None}  # of transformers before 5.2x
_MORE = {
    k: v for k, v in _MORE.items() if k in inspect.signature(convert_and_load_state_dict_in_model).parameters
}


def readable(folder: str) -> bool:
    """Whether BlockWeights reads a folder: safetensors, dense or in NVFP4, MXFP4 or MXFP8."""
    try:
        names = list(open_checkpoint(folder))
    except (OSError, ValueError, NotImplementedError):
        return False
    return not any(name.endswith(_LEFTOVERS) for name in names)


def description_of(folder: str) -> dict[str, Any]:
    """config.json."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        return dict(json.load(file))


def empty_model(folder: str, dtype: torch.dtype, device: torch.device) -> Any:
    """The model that a folder describes, its parameters on the meta device; what is computed from the
    description (frequencies of rotary embeddings) on `device`."""
    kind = description_of(folder).get("model_type")
    if kind not in CONFIG_MAPPING and "auto_map" not in description_of(folder):
        raise ValueError(f"{folder}: transformers {__version__} knows no models of the type '{kind}'")
    config = AutoConfig.from_pretrained(folder)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    for module in model.modules():
        computed = [name for name in module._buffers if name in module._non_persistent_buffers_set]
        for name in computed:
            buffer = module._buffers[name]
            if buffer is not None:
                module._buffers[name] = torch.empty_like(buffer, device=device)
        if computed:
            model._init_weights(module)
    return model.eval()


class BlockWeights:
    """Loads and releases parameters of a model. It maps names as transformers does: experts one by one in
    the file are one tensor in the model."""

    def __init__(self, model: Any, folder: str, dtype: torch.dtype, device: torch.device) -> None:
        self.model, self.folder, self._device = model, folder, device
        self._file = open_checkpoint(folder)
        mapping = get_model_conversion_mapping(model)
        self._config = LoadStateDictConfig(
            dtype=dtype, device_map={"": device}, weight_mapping=mapping, disable_mmap=None
        )
        renamings = [one for one in mapping if isinstance(one, WeightRenaming)]
        converters = [one for one in mapping if isinstance(one, WeightConverter)]
        known, prefix = model.state_dict(), model.base_model_prefix
        self._sources: dict[str, list[str]] = {}
        for name in self._file:
            target, _ = rename_source_key(name, renamings, converters, prefix, known)
            if target not in known and name in known:
                target, _ = rename_source_key(name, [], [], prefix, known)
            self._sources.setdefault(target, []).append(name)
        tied = getattr(model, "all_tied_weights_keys", {})
        self._tied = {one: other for one, other in tied.items() if one not in self._sources}

    def stored(self, name: str) -> Any:
        """What the file has for a parameter: a BlockTensor, an array, or None where it is not one tensor."""
        sources = self._sources.get(name, ())
        return self._file[sources[0]] if len(sources) == 1 else None

    def sources(self, name: str) -> list[str]:
        """What the file calls a parameter, or the tensors that it is made of."""
        return list(self._sources.get(name, ()))

    def load(self, chosen: Chosen) -> None:
        """Reads what is chosen. ValueError where the folder lacks some of it."""
        shared = {one: other for one, other in self._tied.items() if chosen(one) and not chosen(other)}
        wanted = {name for name in self._sources if chosen(name)} | set(shared.values())
        state = {key: self._read(key) for name in wanted for key in self._sources.get(name, ())}
        bars = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()
        try:
            convert_and_load_state_dict_in_model(self.model, state, self._config, **_MORE)
        finally:
            if bars:
                logging.enable_progress_bar()
        for one, other in self._tied.items():
            if chosen(one):
                module, _, name = one.rpartition(".")
                setattr(self.model.get_submodule(module), name, self.model.get_parameter(other))
        self.release(lambda name: name in shared.values())
        absent = self._absent(chosen)
        for name in {name.rpartition(".")[0] for name in absent if name.endswith("experts.gate_up_proj")}:
            self._put_experts(name)
        absent = self._absent(chosen)
        if absent:
            more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
            raise ValueError(
                f"{self.folder}: no tensor for {absent[0]}{more} of its {type(self.model).__name__}"
            )

    def _absent(self, chosen: Chosen) -> list[str]:
        return [name for name, p in self.model.named_parameters() if p.is_meta and chosen(name)]

    def _put_experts(self, name: str) -> None:
        """Experts one by one in the file where transformers knows them stacked only (gpt-oss)."""
        words = ("gate_proj", "up_proj", "down_proj")
        if f"{name}.0.{words[0]}.weight" not in self._sources:
            return
        module = self.model.get_submodule(name)
        for key, value in module._parameters.items():
            filled = torch.empty_like(value, device=self._device)
            module._parameters[key] = nn.Parameter(filled, requires_grad=False)
        layout = Layout(module)
        for i in range(layout.experts):
            biases = None
            if layout.biases:
                biases = [self._read(f"{name}.{i}.{word}.bias") for word in words]
            layout.put(i, [self._read(f"{name}.{i}.{word}.weight") for word in words], biases)

    def release(self, chosen: Chosen) -> None:
        """Back to the meta device."""
        for module_name, module in self.model.named_modules():
            for name, value in module._parameters.items():
                if value is not None and not value.is_meta and chosen(f"{module_name}.{name}"):
                    module._parameters[name] = nn.Parameter(torch.empty_like(value, device="meta"), False)

    def _read(self, name: str) -> Tensor:
        found = self._file._find(name)
        if isinstance(found, _core.BlockTensor):
            return torch.from_numpy(found.dequantize("f32"))
        dtype, shape, data = found
        if dtype not in _DTYPES:
            raise ValueError(f"{self.folder}: {name} is {dtype}, which is no type of weights without scales")
        return torch.from_numpy(data.copy()).view(_DTYPES[dtype]).view(shape)
