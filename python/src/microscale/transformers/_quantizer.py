"""The quantization method "microscale": from_pretrained of a dense model quantizes it while it loads."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import ConversionOps, WeightConverter, revert_weight_conversion
from transformers.quantizers import HfQuantizer
from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING, AUTO_QUANTIZER_MAPPING
from transformers.quantizers.quantizers_utils import should_convert_module
from transformers.utils.quantization_config import QuantizationConfigMixin

from ..torch._linear import Linear
from ..torch._module import Parts, quantized, quantized_together, require_format
from ..torch._packing import block_of
from ._accelerate import Accelerated, accelerate
from ._experts import Layout, dense_experts
from ._load import _put

METHOD = "microscale"
_TOGETHER = (("q_proj", "k_proj", "v_proj"), ("query", "key", "value"), ("gate_proj", "up_proj"))
"""Layers that engines run as one: they get one global scale."""


class MicroscaleConfig(QuantizationConfigMixin):
    """For from_pretrained(dense, quantization_config=MicroscaleConfig("nvfp4")).

    format: nvfp4, mxfp4 or mxfp8. modules_to_not_convert: names, or ends or beginnings of names, of layers
    that stay dense beside the head. options: keywords of microscale.quantize (scale_rule, compat, ...).
    """

    def __init__(
        self, format: str = "nvfp4", modules_to_not_convert: list[str] | None = None, **options: Any
    ) -> None:
        options.pop("quant_method", None)
        self.quant_method = METHOD
        self.format = require_format(format, 32, "in_features")
        self.modules_to_not_convert = modules_to_not_convert
        self.options = options
        quantized(torch.zeros(1, 32), self.format, **options)  # says now what is wrong with them
        self.ignore: list[str] | None = None  # of the layers that stayed dense, once they are known

    def to_dict(self) -> dict[str, Any]:
        """What save_pretrained writes: compressed-tensors' description of the folder."""
        if self.ignore is None:
            own: dict[str, Any] = {"quant_method": METHOD, "format": self.format, **self.options}
            return {**own, "modules_to_not_convert": self.modules_to_not_convert}
        return described(self.format, self.ignore)

    def to_diff_dict(self) -> dict[str, Any]:
        return self.to_dict()


def described(format: str, ignore: list[str]) -> dict[str, Any]:
    """The quantization_config of a folder whose linear layers are in `format`, but for `ignore`."""
    kind = {"nvfp4": "nvfp4-pack-quantized", "mxfp4": "mxfp4-pack-quantized"}.get(format, "mxfp8-quantized")
    weights = {
        "num_bits": 8 if format.startswith("mxfp8") else 4,
        "type": "float",
        "symmetric": True,
        "group_size": block_of(format),
        "strategy": "tensor_group" if format == "nvfp4" else "group",
        "dynamic": False,
        "scale_dtype": "torch.float8_e4m3fn" if format == "nvfp4" else "torch.uint8",
    }
    group = {
        "format": kind,
        "targets": ["Linear"],
        "weights": weights,
        "input_activations": None,
        "output_activations": None,
    }
    return {
        "quant_method": "compressed-tensors",
        "version": "0.20.0",
        "quantization_status": "compressed",
        "format": kind,
        "global_compression_ratio": None,
        "kv_cache_scheme": None,
        "sparsity_config": {},
        "transform_config": {},
        "ignore": ignore,
        "config_groups": {"group_0": group},
    }


class MicroscaleQuantizer(HfQuantizer):
    """Quantizes each weight as it is read, so that the dense model is never in memory, and packs it. `done`
    is what accelerate returned."""

    requires_calibration = False
    quantization_config: MicroscaleConfig
    done: Accelerated

    def validate_environment(self, *_: Any, device_map: Any = None, **__: Any) -> None:
        if self.pre_quantized:
            raise ValueError(
                "config.json: its quantization_config has quant_method 'microscale', which no folder is "
                "written with; save_pretrained writes 'compressed-tensors', without quantization_config="
            )
        places = {str(place) for place in device_map.values()} if isinstance(device_map, dict) else set()
        if "disk" in places or len(places) > 1:
            raise ValueError(
                f"device_map: {', '.join(sorted(places))}: the method 'microscale' loads a model on one "
                "device; pass device_map='cuda' or leave it out"
            )

    def _process_model_before_weight_loading(self, model: Any, **kwargs: Any) -> None:
        config = self.quantization_config
        skipped = self.get_modules_to_not_convert(
            model, config.modules_to_not_convert, model._keep_in_fp32_modules, add_default_skips=True
        )
        inside = {id(module) for module in model.get_decoder().modules()}
        self._linear: dict[str, nn.Linear] = {}  # by the name of the weight
        self._together: dict[str, tuple[str, ...]] = {}
        self._stacks: dict[str, tuple[str, Layout]] = {}  # by the name of a weight, the module of experts
        self._left: dict[str, str] = {}
        for name, module in model.named_modules():
            if type(module) is not nn.Linear:
                continue
            if id(module) not in inside or not should_convert_module(name, skipped):
                self._left[name] = "it is kept: the head, or as modules_to_not_convert says"
            elif module.in_features % block_of(config.format):
                self._left[name] = f"its {module.in_features} inputs are no multiple of the format's block"
            else:
                self._linear[name + ".weight"] = module
        for name in self._linear:
            parent, _, child = name.removesuffix(".weight").rpartition(".")
            for words in _TOGETHER:
                group = tuple(f"{parent}.{word}.weight" for word in words)
                if child in words and all(one in self._linear for one in group):
                    self._together[name] = group
        for parent_name, _, child_name, module in dense_experts(model):
            name = f"{parent_name}.{child_name}"
            try:
                layout = Layout(module)
                for size in (layout.hidden, layout.inner):
                    require_format(config.format, size, "experts")
            except (AttributeError, ValueError) as error:
                self._left[name] = str(error)
                continue
            if should_convert_module(name, skipped):
                self._stacks[name + ".gate_up_proj"] = self._stacks[name + ".down_proj"] = (name, layout)
        self._waiting: dict[str, Tensor] = {}
        self._parts: dict[str, Parts] = {}
        self._experts: dict[str, list[Parts]] = {}

    def param_needs_quantization(self, model: Any, param_name: str, **_: Any) -> bool:
        return param_name in self._linear or param_name in self._stacks

    def get_quantize_ops(self) -> ConversionOps:
        return _Take(self)

    def take(self, name: str, weight: Tensor) -> None:
        """A weight that was read. Those of a group wait for each other: their global scale is one."""
        self._waiting[name] = weight
        stack = self._stacks.get(name)
        group = self._together.get(name, (name,))
        if stack is not None:
            group = (stack[0] + ".gate_up_proj", stack[0] + ".down_proj")
        if not all(one in self._waiting for one in group):
            return
        every = [self._waiting.pop(one) for one in group]
        format, options = self.quantization_config.format, self.quantization_config.options
        if stack is not None:
            self._experts[stack[0]] = stack[1].quantized(every[0], every[1], format, **options)
            return
        self._parts.update(zip(group, quantized_together(every, format, **options), strict=True))

    def _process_model_after_weight_loading(self, model: Any, **_: Any) -> None:
        format = self.quantization_config.format
        for name, dense in self._linear.items():
            module_name = name.removesuffix(".weight")
            if name not in self._parts:
                raise ValueError(
                    f"{module_name}: the checkpoint has no weight for it, or lacks one beside it"
                )
            made = Linear._made(
                self._parts.pop(name), dense.out_features, dense.in_features, format, dense.bias
            )
            _put(model, module_name, made.train(dense.training))
        for name, layout in dict(self._stacks.values()).items():
            if name not in self._experts:
                raise ValueError(f"{name}: the checkpoint lacks some of its experts")
            _put(model, name, layout.packed(format, self._experts.pop(name)))
        self._linear, self._stacks = {}, {}
        self.done = accelerate(model)
        self.done.left.update(self._left)
        dense_ones = {
            name
            for name, module in model.named_modules()
            if not isinstance(module, nn.Embedding)
            and getattr(module._parameters.get("weight"), "ndim", 0) == 2
        }
        self.quantization_config.ignore = sorted(dense_ones | _on_disk(model, dense_ones))

    def get_state_dict_and_metadata(self, model: Any) -> tuple[dict[str, Tensor], dict[str, str]]:
        """The tensors of a checkpoint, each in memory of its own, experts by the names that the model's own
        checkpoints have."""
        words = _words_of_experts(model)
        state, seen = {}, set()
        tied = getattr(model, "all_tied_weights_keys", {})
        for name, tensor in model.state_dict().items():
            if tied.get(name) is not None:
                continue
            head, mark, rest = name.rpartition(".experts.")
            if mark:
                number, _, tail = rest.partition(".")
                word, _, what = tail.partition(".")
                name = f"{head}.experts.{number}.{words.get(word, word)}.{what}"
            alone = tensor.untyped_storage().nbytes() == tensor.nbytes and tensor.data_ptr() not in seen
            seen.add(tensor.data_ptr())
            state[name] = tensor.detach() if alone else tensor.detach().clone()
        return state, {}

    def is_serializable(self) -> bool:
        return True

    @property
    def is_trainable(self) -> bool:
        return False

    @property
    def is_compileable(self) -> bool:
        return True


class _Take(ConversionOps):
    """Hands a weight to the quantizer; the model's own parameter stays empty until it is replaced."""

    def __init__(self, quantizer: MicroscaleQuantizer) -> None:
        self._quantizer = quantizer

    def convert(
        self, input_dict: dict[str, Any], *_: Any, missing_keys: set[str] | None = None, **__: Any
    ) -> dict[str, Any]:
        for name, value in input_dict.items():
            self._quantizer.take(name, value[0] if isinstance(value, list) else value)
            if missing_keys is not None:
                missing_keys.discard(name)
        return {}


def _on_disk(model: Any, modules: set[str]) -> set[str]:
    """What a model's checkpoints call modules with a weight."""
    weight = torch.empty(0, device="meta")
    names = revert_weight_conversion(model, {f"{module}.weight": weight for module in modules})
    return {name.removesuffix(".weight") for name in names}


def _words_of_experts(model: Any) -> dict[str, str]:
    """What the model's checkpoints call gate_proj, up_proj and down_proj of an expert: w1, w3, w2."""
    words: dict[str, str] = {}
    for one in get_model_conversion_mapping(model):
        if not isinstance(one, WeightConverter):
            continue
        for target, ours in (("gate_up_proj", ("gate_proj", "up_proj")), ("down_proj", ("down_proj",))):
            sources = one.source_patterns
            if one.target_patterns[0].endswith("experts." + target) and len(sources) == len(ours):
                theirs = [
                    source.removesuffix("$").removesuffix(".weight").rpartition(".")[2] for source in sources
                ]
                words.update(zip(ours, theirs, strict=True))
    return words


def register() -> None:
    """Makes the method known to transformers. A second time changes nothing."""
    AUTO_QUANTIZATION_CONFIG_MAPPING.setdefault(METHOD, MicroscaleConfig)
    AUTO_QUANTIZER_MAPPING.setdefault(METHOD, MicroscaleQuantizer)
