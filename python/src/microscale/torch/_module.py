"""What the modules here share: packed weights in buffers, which go to another device, into a state dict and
back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from .. import _core
from ._packing import BITS, block_of, packed_bytes, unpack

ops = torch.ops.microscale


@dataclass(frozen=True)
class Parts:
    """The tensors of one matrix, or of `matrices`, as a checkpoint has them: of NVFP4 with the divisor of
    scales."""

    codes: Tensor
    scales: Tensor
    divisor: Tensor | None  # float32, one for each matrix

    @staticmethod
    def of(tensor: _core.BlockTensor) -> Parts:
        """A BlockTensor's, of any framework and layout."""
        if tensor.layout != "row_major":
            tensor = _core.repack_scales(tensor, "row_major")
        codes, scales = (_as_tensor(part).view(torch.uint8) for part in (tensor.codes, tensor.scales))
        if tensor.global_scale is None:
            return Parts(codes, scales, None)
        scale = torch.as_tensor(tensor.global_scale, dtype=torch.float32, device=codes.device).reshape(-1)
        return Parts(codes, scales, 1.0 / scale)


def _as_tensor(part: Any) -> Tensor:
    """A copy of an array that may not be written, as a checkpoint's: torch warns of views of those."""
    if isinstance(part, numpy.ndarray) and not part.flags.writeable:
        part = part.copy()
    return torch.as_tensor(part)


@dataclass(frozen=True)
class WeightSet:
    """Weights that are packed together: `matrices` of n x k (experts), two of each where gated."""

    name: str
    """Of its buffers: what they begin with."""
    n: int
    k: int
    keys: tuple[str, ...]
    """Of the projections in a state dict: "", or "gate_proj.", "up_proj."; "{}" is an expert's number."""
    matrices: int = 1

    @property
    def gated(self) -> bool:
        return len(self.keys) == 2

    def prefixes(self) -> Iterator[tuple[int, int, str]]:
        """Projection, matrix, and what its names in a state dict begin with."""
        for part, key in enumerate(self.keys):
            for matrix in range(self.matrices):
                yield part, matrix, key.format(matrix)


def require_format(format: str, k: int, what: str) -> str:
    format = {"mxfp8": "mxfp8_e4m3"}.get(format, format)
    if format not in BITS:
        raise ValueError(f"format: no weights in '{format}'; choose one of {', '.join(BITS)}")
    if k % block_of(format):
        raise ValueError(f"{what}: {k} is no multiple of the block of {format}, {block_of(format)}")
    return format


class PackedModule(nn.Module):
    """A module whose weights are packed. Buffers hold the bytes and, of NVFP4, the global scales (float32,
    the decode multiplier) and what a state dict has instead (their reciprocal)."""

    format: str
    _sets: tuple[WeightSet, ...]
    _biases: dict[str, str]  # attribute: key in a state dict

    def __init__(self, format: str, sets: Sequence[WeightSet]) -> None:
        super().__init__()
        self.format = format
        self._sets = tuple(sets)
        self._biases = {}

    def _add_bias(self, attribute: str, key: str, bias: Tensor | None) -> None:
        """A frozen one, unless it is a Parameter that is not."""
        if bias is not None and not isinstance(bias, nn.Parameter):
            bias = nn.Parameter(bias, requires_grad=False)
        self.register_parameter(attribute, bias)
        self._biases[attribute] = key

    # Weights

    def _names(self, part: int, of: WeightSet) -> tuple[str, str]:
        """Attributes of a projection's global scale and divisor."""
        word = "up_" if part else ""
        return f"{of.name}{word}global_scale", f"{of.name}{word}divisor"

    def _register(self, name: str, value: Tensor | None) -> None:
        """In place where it fits, as graphs that were captured keep addresses."""
        old = self._buffers.get(name)
        if (
            old is not None
            and value is not None
            and old.shape == value.shape
            and old.dtype == value.dtype
            and old.device == value.device
            and not old.is_meta
        ):
            with torch.no_grad():
                old.copy_(value)
        else:
            self.register_buffer(name, value, persistent=False)

    def _set_weights(self, of: WeightSet, parts: Sequence[Parts]) -> None:
        flat = [value for part in parts for value in (part.codes.contiguous(), part.scales.contiguous())]
        if of.matrices == 1:
            flat = [value.reshape(of.n, -1) for value in flat]
        if flat[0].is_meta:
            size = packed_bytes(of.n, of.k, of.matrices, of.gated, self.format, "meta")
            packed = torch.empty(size, dtype=torch.uint8, device="meta")
        else:
            packed = ops.pack_weights(flat[0], flat[1], self.format, *flat[2:])
        self._register(of.name + "packed", packed)
        for i, part in enumerate(parts):
            scale_name, divisor_name = self._names(i, of)
            divisor = (
                None
                if part.divisor is None
                else part.divisor.detach().to(torch.float32, copy=True).reshape(-1)
            )
            self._register(divisor_name, divisor)
            self._register(scale_name, None if divisor is None else 1.0 / divisor)

    def _set_nothing(self, of: WeightSet, device: Any = None) -> None:
        """Weights of zeros, to be loaded."""
        shape = (of.matrices, of.n)
        codes = torch.zeros((*shape, of.k * BITS[self.format] // 8), dtype=torch.uint8, device=device)
        scales = torch.zeros((*shape, of.k // block_of(self.format)), dtype=torch.uint8, device=device)
        divisor = torch.ones(of.matrices, device=device) if self.format == "nvfp4" else None
        self._set_weights(of, [Parts(codes, scales, divisor)] * len(of.keys))

    def _weights(self, of: WeightSet) -> list[Parts]:
        packed = self._buffers[of.name + "packed"]
        assert packed is not None
        if packed.is_meta:
            shape = (of.matrices, of.n)
            codes = packed.new_empty((*shape, of.k * BITS[self.format] // 8))
            pairs = [(codes, packed.new_empty((*shape, of.k // block_of(self.format))))] * len(of.keys)
        else:
            pairs = unpack(packed, of.n, of.k, of.matrices, of.gated, self.format)
        return [Parts(*pair, self._buffers[self._names(i, of)[1]]) for i, pair in enumerate(pairs)]

    def _dense(self, of: WeightSet, part: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
        scale = self._buffers[self._names(part, of)[0]]
        packed = self._buffers[of.name + "packed"]
        return ops.dense_weights(
            packed, scale, of.matrices, of.n, of.k, self.format, dtype, part == 1, of.gated
        )

    # To another device: the packed form of a GPU is not the CPU's. Scales stay float32.

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> PackedModule:
        own = {name: self._buffers.pop(name) for name in list(self._buffers)}
        try:
            super()._apply(fn, recurse)
        finally:
            self._buffers.update(own)

        def moved(tensor: Tensor) -> Tensor:
            result = fn(tensor)
            return result if result.dtype == tensor.dtype else tensor.to(result.device)

        for of in self._sets:
            before = self._buffers[of.name + "packed"]
            assert before is not None
            target = moved(before.new_empty(0)).device
            if target.type == before.device.type:
                for name in [of.name + "packed", *self._names(0, of), *self._names(1, of)]:
                    value = self._buffers.get(name)
                    if value is not None:
                        self._buffers[name] = moved(value)
            elif before.is_meta:  # to_empty
                self._set_nothing(of, target)
            else:
                parts = self._weights(of)
                self._set_weights(
                    of,
                    [
                        Parts(
                            moved(p.codes), moved(p.scales), None if p.divisor is None else moved(p.divisor)
                        )
                        for p in parts
                    ],
                )
        return self

    # State dicts have a checkpoint's names and tensors.

    def _tensors_of(self, codes: Tensor, scales: Tensor, divisor: Tensor | None) -> dict[str, Tensor]:
        if BITS[self.format] == 8:
            kind = torch.float8_e4m3fn if self.format == "mxfp8_e4m3" else torch.float8_e5m2
            return {"weight": codes.view(kind), "weight_scale": scales}
        if divisor is None:
            return {"weight_packed": codes, "weight_scale": scales}
        return {
            "weight_packed": codes,
            "weight_scale": scales.view(torch.float8_e4m3fn),
            "weight_global_scale": divisor,
        }

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        for of in self._sets:
            every = self._weights(of)
            for part, matrix, key in of.prefixes():
                p = every[part]
                divisor = None if p.divisor is None else p.divisor[matrix : matrix + 1]
                for name, tensor in self._tensors_of(
                    p.codes[matrix].contiguous(), p.scales[matrix].contiguous(), divisor
                ).items():
                    destination[prefix + key + name] = tensor
        for attribute, key in self._biases.items():
            bias = getattr(self, attribute)
            if bias is not None:
                destination[prefix + key] = bias if keep_vars else bias.detach()

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
        seen: set[str] = set()
        for of in self._sets:
            found: list[list[Parts]] = [[] for _ in of.keys]
            for part, _, key in of.prefixes():
                one = self._read(
                    state_dict, prefix + key, of, seen, missing_keys if strict else [], error_msgs
                )
                if one is not None:
                    found[part].append(one)
            if all(len(parts) == of.matrices for parts in found):
                self._set_weights(of, [_stacked(parts) for parts in found])
        for attribute, key in self._biases.items():
            seen.add(prefix + key)
            bias = getattr(self, attribute)
            if bias is None:
                seen.discard(prefix + key)
            elif prefix + key in state_dict:
                value = state_dict[prefix + key]
                if value.shape != bias.shape:
                    error_msgs.append(
                        f"{prefix + key}: of shape {tuple(value.shape)}, not {tuple(bias.shape)}"
                    )
                elif bias.is_meta or local_metadata.get("assign_to_params_buffers", False):
                    setattr(self, attribute, nn.Parameter(value, requires_grad=bias.requires_grad))
                else:
                    with torch.no_grad():
                        bias.copy_(value)
            elif strict:
                missing_keys.append(prefix + key)
        if strict:
            unexpected_keys += [key for key in state_dict if key.startswith(prefix) and key not in seen]

    def _read(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        of: WeightSet,
        seen: set[str],
        missing: list[str],
        errors: list[str],
    ) -> Parts | None:
        """One matrix, as a checkpoint has it; or dense, to be quantized here."""
        own = self._buffers[of.name + "packed"]
        assert own is not None

        def here(tensor: Tensor) -> Tensor:
            return tensor if own.is_meta else tensor.to(own.device)

        shape = (of.n, of.k)
        dense = state_dict.get(prefix + "weight")
        if dense is not None and dense.element_size() > 1:
            seen.add(prefix + "weight")
            if tuple(dense.shape) != shape:
                errors.append(f"{prefix}weight: of shape {tuple(dense.shape)}, not {shape}")
                return None
            return quantized(here(dense), self.format)
        names = self._tensors_of(
            *(torch.empty(0, dtype=torch.uint8),) * 2, torch.empty(0) if self.format == "nvfp4" else None
        )
        seen.update(
            prefix + name for name in [*names, "input_global_scale"]
        )  # the scale of activations means nothing here
        absent = [prefix + name for name in names if prefix + name not in state_dict]
        missing += absent
        if absent:
            return None
        codes, scales, *divisor = (here(state_dict[prefix + name]) for name in names)
        wanted = ((of.n, of.k * BITS[self.format] // 8), (of.n, of.k // block_of(self.format)))
        for name, tensor, right in zip(names, (codes, scales), wanted, strict=False):
            if tuple(tensor.shape) != right or tensor.element_size() != 1:
                errors.append(
                    f"{prefix + name}: {tensor.dtype} of shape {tuple(tensor.shape)}, not bytes of {right}"
                )
                return None
        if divisor and divisor[0].numel() != 1:
            errors.append(f"{prefix}weight_global_scale: {divisor[0].numel()} numbers, not one")
            return None
        return Parts(codes.view(torch.uint8), scales.view(torch.uint8), divisor[0] if divisor else None)


def _stacked(parts: Sequence[Parts]) -> Parts:
    if len(parts) == 1:
        return parts[0]
    divisors = [part.divisor for part in parts]
    return Parts(
        torch.stack([part.codes for part in parts]),
        torch.stack([part.scales for part in parts]),
        None if divisors[0] is None else torch.cat([d.reshape(1) for d in divisors if d is not None]),
    )


def in_forward_mode() -> bool:
    """Whether torch.func.jvp or the like is at work. Its tangents need autograd.Functions with a jvp, which
    torch.compile does not take: classes of their own."""
    return forward_ad._current_level >= 0


def no_tensor(name: str, value: Any) -> TypeError:
    return TypeError(f"{name}: expected a torch.Tensor, got {type(value).__name__}")


def require_linear(name: str, module: Any) -> None:
    if not isinstance(module, nn.Module) or not isinstance(getattr(module, "weight", None), Tensor):
        raise TypeError(f"{name}: expected a torch.nn.Linear, got {type(module).__name__}")
    if module.weight.dtype == torch.float64:  # its inputs would be refused
        raise ValueError(
            f"{name}: its weights are float64, and products take float32, bfloat16 and float16; call "
            ".float() first"
        )


def quantized(weight: Tensor, format: str, **options: Any) -> Parts:
    """Of a matrix, blocks along its rows. options: of microscale.quantize, but those that place codes."""
    placing = options.keys() & {"axis", "layout", "out", "pad", "backend", "stream", "format"}
    if placing:
        names = ", ".join(sorted(placing))
        raise TypeError(f"options: a module says itself how its weights lie; leave out {names}")
    weight = weight.detach().contiguous()
    if weight.dtype == torch.float64:
        weight = weight.float()
    return Parts.of(_core.quantize(weight, format, **options))


def quantized_together(weights: Sequence[Tensor], format: str, **options: Any) -> list[Parts]:
    """Matrices of one width, each quantized, with one global scale."""
    whole, sizes = quantized(torch.cat(list(weights)), format, **options), [len(one) for one in weights]
    pairs = zip(whole.codes.split(sizes), whole.scales.split(sizes), strict=True)
    return [Parts(codes, scales, whole.divisor) for codes, scales in pairs]
