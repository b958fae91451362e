"""GatedMlp: down(activation(gate(x)) * up(x)), gate and up in one kernel."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ._linear import Linear, product
from ._module import (
    PackedModule,
    WeightSet,
    in_forward_mode,
    no_tensor,
    ops,
    quantized,
    require_format,
    require_linear,
)

_ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu_tanh": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
}


def _activation_of(module: Any) -> str:
    """By the name that models have for it, or the module."""
    name = module if isinstance(module, str) else type(module).__name__
    if isinstance(module, nn.GELU):
        name = "gelu_tanh" if module.approximate == "tanh" else "gelu"
    name = {
        "SiLU": "silu",
        "SiLUActivation": "silu",
        "PytorchGELUTanh": "gelu_tanh",
        "GELUTanh": "gelu_tanh",
        "NewGELUActivation": "gelu_tanh",
    }.get(name, name)
    if name not in _ACTIVATIONS:
        raise ValueError(f"activation: there is no '{name}'; choose one of silu, gelu_tanh")
    return _ACTIVATIONS[name]


class _GatedProduct(torch.autograd.Function):
    """gated_linear with the gradient of its input, for which both products are computed again, dense."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, packed, scale, up_scale, gate_bias, up_bias, n, k, format, activation):
        return ops.gated_linear(x, packed, scale, up_scale, gate_bias, up_bias, n, k, format, activation)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, packed, scale, up_scale, gate_bias, up_bias, *sizes = inputs
        ctx.save_for_backward(x, packed, scale, up_scale, gate_bias, up_bias)
        ctx.sizes = sizes

    @staticmethod
    def dense(ctx):
        """Both matrices, and x times each."""
        x, packed, scale, up_scale, gate_bias, up_bias = ctx.saved_tensors
        n, k, format, _ = ctx.sizes
        words = (1, n, k, format, x.dtype)
        gate = ops.dense_weights(packed, scale, *words, False, True)[0]
        up = ops.dense_weights(packed, up_scale, *words, True, True)[0]
        g = F.linear(x, gate, None if gate_bias is None else gate_bias.to(x.dtype))
        u = F.linear(x, up, None if up_bias is None else up_bias.to(x.dtype))
        return gate, up, g, u

    @staticmethod
    def backward(ctx, grad):
        gate, up, g, u = _GatedProduct.dense(ctx)
        if ctx.sizes[3] == "silu":
            of_gate, active = torch.ops.aten.silu_backward(grad * u, g), F.silu(g)
        else:
            of_gate = torch.ops.aten.gelu_backward(grad * u, g, approximate="tanh")
            active = F.gelu(g, approximate="tanh")
        return of_gate @ gate + (grad * active) @ up, *(None,) * 9


class _ForwardGated(_GatedProduct):
    """_GatedProduct with the tangents of the input."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        _GatedProduct.setup_context(ctx, inputs, output)
        ctx.save_for_forward(*inputs[:6])

    @staticmethod
    def jvp(ctx, of_x, *_):
        gate, up, g, u = _GatedProduct.dense(ctx)
        of_g, of_u = F.linear(of_x, gate), F.linear(of_x, up)
        if ctx.sizes[3] == "silu":
            return torch.ops.aten.silu_backward(of_g, g) * u + F.silu(g) * of_u
        active = F.gelu(g, approximate="tanh")
        return torch.ops.aten.gelu_backward(of_g, g, approximate="tanh") * u + active * of_u


class GatedMlp(PackedModule):
    """down_proj(activation(gate_proj(x)) * up_proj(x)) with weights in `format`: the MLP of most language
    models.

    hidden_size and intermediate_size are multiples of the format's block. activation: silu or gelu_tanh.
    x is as of Linear, and has a gradient; weights and biases do not train. State dicts have gate_proj,
    up_proj and down_proj with a checkpoint's tensors.
    """

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int,
        format: str = "nvfp4",
        activation: str = "silu",
        bias: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        format = require_format(format, hidden_size, "hidden_size")
        require_format(format, intermediate_size, "intermediate_size")
        super().__init__(
            format,
            [
                WeightSet("", intermediate_size, hidden_size, ("gate_proj.", "up_proj.")),
                WeightSet("down_", hidden_size, intermediate_size, ("down_proj.",)),
            ],
        )
        self.hidden_size, self.intermediate_size = hidden_size, intermediate_size
        self.activation = _activation_of(activation)
        for of in self._sets:
            self._set_nothing(of, device)
        for word, size in (("gate", intermediate_size), ("up", intermediate_size), ("down", hidden_size)):
            zeros = torch.zeros(size, device=device, dtype=dtype) if bias else None
            self._add_bias(f"{word}_bias", f"{word}_proj.bias", zeros)

    @classmethod
    def from_linears(
        cls,
        gate: nn.Linear,
        up: nn.Linear,
        down: nn.Linear,
        format: str = "nvfp4",
        activation: Any = "silu",
        **options: Any,
    ) -> GatedMlp:
        """Quantizes the weights of three layers. options: keywords of microscale.quantize."""
        for name, linear in (("gate", gate), ("up", up), ("down", down)):
            require_linear(name, linear)
        made = cls(gate.in_features, gate.out_features, format, _activation_of(activation), device="meta")
        for of, linears in zip(made._sets, ((gate, up), (down,)), strict=True):
            for linear in linears:
                if tuple(linear.weight.shape) != (of.n, of.k):
                    raise ValueError(
                        f"{of.keys}: a weight of shape {tuple(linear.weight.shape)}, not {(of.n, of.k)}"
                    )
            made._set_weights(of, [quantized(linear.weight, made.format, **options) for linear in linears])
        for word, linear in (("gate", gate), ("up", up), ("down", down)):
            bias = None if linear.bias is None else linear.bias.detach()
            made._add_bias(f"{word}_bias", f"{word}_proj.bias", bias)
        return made

    @classmethod
    def from_packed(cls, gate: Linear, up: Linear, down: Linear, activation: Any = "silu") -> GatedMlp:
        """Of three layers of one format, packed already: their bytes stay what they are."""
        sizes = (gate.in_features, gate.out_features)
        made = cls(*sizes, gate.format, _activation_of(activation), device="meta")
        for of, linears in zip(made._sets, ((gate, up), (down,)), strict=True):
            made._set_weights(of, [linear._weights(linear._sets[0])[0] for linear in linears])
        for word, linear in (("gate", gate), ("up", up), ("down", down)):
            made._add_bias(f"{word}_bias", f"{word}_proj.bias", linear.bias)
        return made

    @classmethod
    def from_mlp(cls, mlp: Any, format: str = "nvfp4", **options: Any) -> GatedMlp:
        """Of a module with gate_proj, up_proj, down_proj and act_fn, as transformers' models have them."""
        return cls.from_linears(
            mlp.gate_proj, mlp.up_proj, mlp.down_proj, format, mlp.act_fn, **options
        ).train(mlp.training)

    def forward(self, x: Tensor) -> Tensor:
        n, k = self.intermediate_size, self.hidden_size
        gated = (
            x,
            self.packed,
            self.global_scale,
            self.up_global_scale,
            self.gate_bias,
            self.up_bias,
            n,
            k,
            self.format,
            self.activation,
        )
        if not isinstance(x, Tensor):
            raise no_tensor("x", x)
        tangents = in_forward_mode()
        if tangents or torch.is_grad_enabled() and x.requires_grad:
            return product(
                (_ForwardGated if tangents else _GatedProduct).apply(*gated),
                self.down_packed,
                self.down_global_scale,
                self.down_bias,
                k,
                n,
                self.format,
            )
        return ops.linear(
            ops.gated_linear(*gated),
            self.down_packed,
            self.down_global_scale,
            self.down_bias,
            k,
            n,
            self.format,
        )

    def extra_repr(self) -> str:
        return (
            f"hidden_size={self.hidden_size}, intermediate_size={self.intermediate_size}, "
            f"format={self.format}, activation={self.activation}"
        )
