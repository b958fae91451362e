"""FusedLinear: layers that multiply the same input, as one product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..torch._linear import Linear
from ..torch._module import Parts, WeightSet, quantized


class FusedLinear(Linear):
    """Linear layers of one input (q_proj, k_proj, v_proj) as one, which computes all of them when the first
    is called. A model's code still calls them one by one, by the `FusedPart`s that `parts` makes.

    In a state dict the parts have their layers' tensors ("q_proj.weight_packed"), and this one has none.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    _last: tuple[Tensor, tuple[Tensor, ...]] | None
    _loaded: dict[int, Parts]

    @classmethod
    def from_layers(cls, layers: dict[str, Linear]) -> FusedLinear:
        """Of layers by their names beside this one. Their inputs, formats and global scales are equal, and
        either all have biases or none (`reason_against` says what is not)."""
        first, *_ = every = list(layers.values())
        weights = [layer._weights(layer._sets[0])[0] for layer in every]
        parts = Parts(
            torch.cat([w.codes.flatten(0, 1) for w in weights]),
            torch.cat([w.scales.flatten(0, 1) for w in weights]),
            weights[0].divisor,
        )
        return cls._of(layers, parts, first.format)

    @classmethod
    def from_dense(cls, layers: dict[str, nn.Linear], format: str) -> FusedLinear:
        """Of dense layers, quantized with one global scale, as engines want those that they fuse."""
        weight = torch.cat([layer.weight.detach() for layer in layers.values()])
        return cls._of(layers, quantized(weight, format), format)

    @classmethod
    def _of(cls, layers: Mapping[str, Any], parts: Parts, format: str) -> FusedLinear:
        first, *_ = every = list(layers.values())
        bias = None if first.bias is None else torch.cat([layer.bias.detach() for layer in every])
        sizes = tuple(layer.out_features for layer in every)
        made = cls._made(parts, sum(sizes), first.in_features, format, bias)
        made.names, made.sizes, made._last, made._loaded = tuple(layers), sizes, None, {}
        return made.train(first.training)

    def parts(self) -> list[FusedPart]:
        return [FusedPart(self, i) for i in range(len(self.names))]

    def part(self, x: Tensor, index: int) -> Tensor:
        """The result of one layer. The products of an input are kept until the last layer has asked. The
        pair is read once and replaced whole, so that threads get in each other's way but not into each
        other's results."""
        last = self._last
        if last is None or last[0] is not x:
            last = (x, self(x).split(self.sizes, -1))
        self._last = None if index == len(self.sizes) - 1 else last
        return last[1][index]

    # Its parts have the tensors of a checkpoint, under the names of the layers.

    def _rows(self, index: int) -> slice:
        start = sum(self.sizes[:index])
        return slice(start, start + self.sizes[index])

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Nothing: see the parts."""

    def _load_from_state_dict(self, *_: Any) -> None:
        """Nothing: see the parts."""

    def load_part(self, index: int, parts: Parts, errors: list[str]) -> None:
        """The codes and scales of one layer; packed when all layers' have come."""
        self._loaded[index] = parts
        if len(self._loaded) < len(self.names):
            return
        every = [self._loaded[i] for i in range(len(self.names))]
        self._loaded = {}
        first = every[0].divisor
        divisors = [part.divisor for part in every if part.divisor is not None]
        if any(not torch.equal(divisor, divisors[0]) for divisor in divisors):
            names = ", ".join(self.names)
            errors.append(f"{names}: their global scales differ; microscale repair makes them equal")
            return
        codes, scales = (torch.cat([getattr(p, what) for p in every]) for what in ("codes", "scales"))
        self._set_weights(self._sets[0], [Parts(codes, scales, first)])

    def extra_repr(self) -> str:
        return f"{', '.join(self.names)}: {super().extra_repr()}"


class FusedPart(nn.Module):
    """One layer of a FusedLinear, which holds its weights."""

    def __init__(self, whole: FusedLinear, index: int) -> None:
        super().__init__()
        self._whole = (whole,)  # in a tuple, so that it is no submodule of this one, too
        self.index = index
        self.in_features, self.out_features = whole.in_features, whole.sizes[index]

    def forward(self, x: Tensor) -> Tensor:
        return self._whole[0].part(x, self.index)

    @property
    def weight(self) -> Tensor:
        """The dense weights, made anew at each call, for code that reads them."""
        return self._whole[0].weight.split(self._whole[0].sizes)[self.index]

    @property
    def bias(self) -> Tensor | None:
        whole = self._whole[0]
        return None if whole.bias is None else whole.bias.split(whole.sizes)[self.index]

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        whole = self._whole[0]
        own, rows = whole._weights(whole._sets[0])[0], whole._rows(self.index)
        codes, scales = own.codes[0, rows].contiguous(), own.scales[0, rows].contiguous()
        divisor = None if own.divisor is None else own.divisor.clone()  # no file has one tensor by two names
        for name, tensor in whole._tensors_of(codes, scales, divisor).items():
            destination[prefix + name] = tensor
        if self.bias is not None:
            destination[prefix + "bias"] = self.bias.detach()

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        whole, seen = self._whole[0], {prefix + "bias"}
        of = WeightSet("", self.out_features, self.in_features, ("",))
        own = whole._read(state_dict, prefix, of, seen, missing_keys if strict else [], error_msgs)
        if own is not None:
            whole.load_part(self.index, own, error_msgs)
        bias = state_dict.get(prefix + "bias")
        if self.bias is None:
            seen.discard(prefix + "bias")
        elif bias is None:
            missing_keys += [prefix + "bias"] if strict else []
        elif bias.shape != self.bias.shape:
            error_msgs.append(f"{prefix}bias: of shape {tuple(bias.shape)}, not {tuple(self.bias.shape)}")
        else:
            with torch.no_grad():
                self.bias.copy_(bias)
        if strict:
            unexpected_keys += [key for key in state_dict if key.startswith(prefix) and key not in seen]

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"


def reason_against(layers: Sequence[nn.Module]) -> str:
    """Why layers cannot be one product; "" if they can: all packed, or all dense."""
    if not (
        all(type(layer) is Linear for layer in layers) or all(type(layer) is nn.Linear for layer in layers)
    ):
        return "not all of them are packed"
    first, *others = layers
    for other in others:
        if other.in_features != first.in_features or _type_of(other) != _type_of(first):
            return "their inputs or formats differ"
        if (other.bias is None) != (first.bias is None):
            return "only some of them have a bias"
        scale = getattr(first, "global_scale", None)
        if scale is not None and not torch.equal(other.global_scale, scale):  # type: ignore[arg-type]
            return "their global scales differ (microscale repair makes them equal)"
    return ""


def _type_of(layer: Any) -> Any:
    return layer.format if isinstance(layer, Linear) else layer.weight.dtype
