"""Experts: the gated MLPs of a mixture, each row by its experts' weights, in three grouped products."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ._mlp import _activation_of
from ._module import (
    PackedModule,
    WeightSet,
    _stacked,
    in_forward_mode,
    no_tensor,
    ops,
    quantized,
    require_format,
)


class _GroupedProduct(torch.autograd.Function):
    """grouped_linear with the gradient of its input, expert by expert: it waits for the number of rows of
    each."""

    @staticmethod
    def forward(x, packed, scale, offsets, experts, n, k, format):
        return ops.grouped_linear(x, packed, scale, None, offsets, None, 0, None, experts, n, k, format)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, packed, scale, offsets, *sizes = inputs
        ctx.save_for_backward(packed, scale, offsets)
        ctx.sizes = sizes

    @staticmethod
    def backward(ctx, grad):
        packed, scale, offsets = ctx.saved_tensors
        experts, n, k, format = ctx.sizes
        weights = ops.dense_weights(packed, scale, experts, n, k, format, grad.dtype)
        ends = offsets.tolist()
        of_x = grad.new_zeros(grad.shape[0], k)
        for e in range(experts):
            of_x[ends[e] : ends[e + 1]] = grad[ends[e] : ends[e + 1]] @ weights[e]
        return of_x, *(None,) * 7


class _ForwardGrouped(_GroupedProduct):
    """_GroupedProduct with the tangents of the input."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        _GroupedProduct.setup_context(ctx, inputs, output)
        ctx.save_for_forward(*inputs[1:4])

    @staticmethod
    def jvp(ctx, of_x, *_):
        packed, scale, offsets = ctx.saved_tensors
        return ops.grouped_linear(of_x, packed, scale, None, offsets, None, 0, None, *ctx.sizes)


def rows_by_expert(x: Tensor, indices: Tensor, num_experts: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of x, one for each choice, in the order of their experts; the choice of each row; and where the
    rows of each expert begin, the last number being their end. Choices below 0 stand in front of the
    first, those of num_experts and above behind the end."""
    every = indices.reshape(-1)
    order = torch.argsort(every, stable=True)
    numbers = torch.arange(num_experts + 1, device=x.device, dtype=indices.dtype)
    return x[order // indices.shape[1]], order, torch.searchsorted(every[order].contiguous(), numbers)


def sums_by_token(down: Tensor, order: Tensor, weights: Tensor) -> Tensor:
    """The weighted sum of each token's rows, which are in the order of their experts. First back to the
    tokens' order, so that the sum has a fixed one."""
    down = down * weights.reshape(-1)[order].unsqueeze(-1).to(down.dtype)
    return torch.empty_like(down).index_copy(0, order, down).view(*weights.shape, down.shape[-1]).sum(1)


CLAMPED = "clamped_swiglu"
"""Of gpt-oss: (up + 1) * gate * sigmoid(alpha * gate), gate at most `limit`, up between -limit and limit."""


class Experts(PackedModule):
    """The experts of a mixture: each a gated MLP, weights in `format`.

    forward(x, indices, weights): x (tokens, hidden_size); indices (tokens, chosen), integers, the experts of
    each token; weights (tokens, chosen). Returns the weighted sums, (tokens, hidden_size). An index of no
    expert is a ValueError on the CPU (compiled: RuntimeError); on a GPU, which is not waited for, such a
    choice adds nothing. Nothing waits for a GPU, so graphs take it; gradients of x and weights do (in the
    way back).

    activation: silu or gelu_tanh, or clamped_swiglu, gpt-oss's, with its alpha and limit. bias: whether
    every projection has one (gate_bias, up_bias: (num_experts, intermediate_size); down_bias). State dicts
    have "0.gate_proj.weight_packed", "0.gate_proj.bias" and so on.
    """

    def __init__(
        self,
        num_experts: int,
        hidden_size: int,
        intermediate_size: int,
        format: str = "nvfp4",
        activation: str = "silu",
        device: Any = None,
        *,
        bias: bool = False,
        dtype: torch.dtype | None = None,
        alpha: float = 1.702,
        limit: float = 7.0,
    ) -> None:
        format = require_format(format, hidden_size, "hidden_size")
        require_format(format, intermediate_size, "intermediate_size")
        sizes = (
            ("gate_", intermediate_size, hidden_size),
            ("up_", intermediate_size, hidden_size),
            ("down_", hidden_size, intermediate_size),
        )
        super().__init__(
            format, [WeightSet(name, n, k, (f"{{}}.{name}proj.",), num_experts) for name, n, k in sizes]
        )
        self.num_experts, self.hidden_size, self.intermediate_size = (
            num_experts,
            hidden_size,
            intermediate_size,
        )
        self.activation = activation if activation == CLAMPED else _activation_of(activation)
        self.alpha, self.limit = alpha, limit
        for of in self._sets:
            self._set_nothing(of, device)
            zeros = torch.zeros(num_experts, of.n, device=device, dtype=dtype) if bias else None
            self.set_bias(of.name + "bias", zeros)

    def set_bias(self, name: str, bias: Tensor | None) -> None:
        """gate_bias, up_bias or down_bias: (num_experts, outputs), frozen."""
        self.register_parameter(name, None if bias is None else nn.Parameter(bias, requires_grad=False))

    @classmethod
    def from_weights(
        cls,
        gate: Tensor,
        up: Tensor,
        down: Tensor,
        format: str = "nvfp4",
        activation: Any = "silu",
        **options: Any,
    ) -> Experts:
        """Quantizes weights (experts, intermediate_size, hidden_size), twice, and (experts, hidden_size,
        intermediate_size): each expert's matrix with a global scale of its own, as checkpoints have it.
        options: keywords of microscale.quantize."""
        for name, tensor, shape in (
            ("gate", gate, up.shape),
            ("down", down, (gate.shape[0], gate.shape[2], gate.shape[1])),
        ):
            if gate.dim() != 3 or tuple(tensor.shape) != tuple(shape):
                raise ValueError(
                    f"{name}: of shape {tuple(tensor.shape)} beside {tuple(shape)}; see from_weights"
                )
        if activation != CLAMPED:
            activation = _activation_of(activation)
        made = cls(gate.shape[0], gate.shape[2], gate.shape[1], format, activation, device="meta")
        for of, every in zip(made._sets, (gate, up, down), strict=True):
            made._set_weights(of, [_stacked([quantized(one, made.format, **options) for one in every])])
        return made

    def forward(self, x: Tensor, indices: Tensor, weights: Tensor) -> Tensor:
        self._check(x, indices, weights)
        rows, order, offsets = rows_by_expert(x, indices, self.num_experts)
        experts = indices.reshape(-1)[order]
        n, k = self.intermediate_size, self.hidden_size
        gate = self._product(rows, "gate_", experts, offsets, n, k)
        up = self._product(rows, "up_", experts, offsets, n, k)
        down = self._product(self._active(gate, up), "down_", experts, offsets, k, n)
        return sums_by_token(down, order, weights)

    def _active(self, gate: Tensor, up: Tensor) -> Tensor:
        if self.activation == CLAMPED:
            gate, up = gate.clamp(max=self.limit), up.clamp(-self.limit, self.limit)
            return (up + 1) * (gate * torch.sigmoid(gate * self.alpha))
        return (F.silu(gate) if self.activation == "silu" else F.gelu(gate, approximate="tanh")) * up

    def _check(self, x: Tensor, indices: Tensor, weights: Tensor) -> None:
        for name, value in (("x", x), ("indices", indices), ("weights", weights)):
            if not isinstance(value, Tensor):
                raise no_tensor(name, value)
        if x.dim() != 2 or x.shape[1] != self.hidden_size:
            raise ValueError(f"x: of shape {tuple(x.shape)}; pass (tokens, {self.hidden_size})")
        if indices.dim() != 2 or indices.shape[0] != x.shape[0] or indices.is_floating_point():
            raise ValueError(
                f"indices: {indices.dtype} of shape {tuple(indices.shape)}; pass integers of shape "
                f"({x.shape[0]}, chosen)"
            )
        if weights.shape != indices.shape:
            raise ValueError(
                f"weights: of shape {tuple(weights.shape)}; pass {tuple(indices.shape)}, as indices are"
            )
        if x.device.type == "cpu":  # a GPU would have to be waited for
            right = ((indices >= 0) & (indices < self.num_experts)).all()
            words = f"indices: experts are numbered from 0 to {self.num_experts - 1}"
            if torch.compiler.is_compiling():
                torch._assert_async(right, words)
            elif not right:
                raise ValueError(f"{words}, these from {indices.min()} to {indices.max()}")

    def _product(self, x: Tensor, name: str, experts: Tensor, offsets: Tensor, n: int, k: int) -> Tensor:
        packed, scale = self._buffers[name + "packed"], self._buffers[name + "global_scale"]
        bias = self._parameters[name + "bias"]
        tangents = in_forward_mode()
        if tangents or torch.is_grad_enabled() and x.requires_grad:
            function = _ForwardGrouped if tangents else _GroupedProduct
            result = function.apply(x, packed, scale, offsets, self.num_experts, n, k, self.format)
            if bias is None:
                return result
            real = (experts >= 0) & (experts < self.num_experts)
            own = bias[experts.clamp(0, self.num_experts - 1)]
            return result + torch.where(real[:, None], own, 0).to(result.dtype)
        return ops.grouped_linear(
            x, packed, scale, bias, offsets, None, 0, None, self.num_experts, n, k, self.format
        )

    # Biases in state dicts: one by one, beside the weights.

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for of in self._sets:
            bias = self._parameters[of.name + "bias"]
            for expert in range(0 if bias is None else of.matrices):
                destination[f"{prefix}{expert}.{of.name}proj.bias"] = bias.detach()[expert]

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
        rest = dict(state_dict)
        for of in self._sets:
            bias = self._parameters[of.name + "bias"]
            for expert in range(0 if bias is None else of.matrices):
                key = f"{prefix}{expert}.{of.name}proj.bias"
                value = rest.pop(key, None)
                if value is None:
                    missing_keys += [key] if strict else []
                elif value.shape != bias.shape[1:]:
                    error_msgs.append(f"{key}: of shape {tuple(value.shape)}, not {tuple(bias.shape[1:])}")
                elif not bias.is_meta:
                    with torch.no_grad():
                        bias[expert].copy_(value)
        super()._load_from_state_dict(
            rest, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def extra_repr(self) -> str:
        return (
            f"num_experts={self.num_experts}, hidden_size={self.hidden_size}, "
            f"intermediate_size={self.intermediate_size}, format={self.format}, "
            f"activation={self.activation}, bias={self.down_bias is not None}"
        )
