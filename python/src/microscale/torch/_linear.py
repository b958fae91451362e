"""Linear: torch.nn.Linear with weights in a block-scaled format."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .. import _core
from ._module import (
    PackedModule,
    Parts,
    WeightSet,
    in_forward_mode,
    no_tensor,
    ops,
    quantized,
    require_format,
    require_linear,
)


class _Product(torch.autograd.Function):
    """linear with the gradients of its input and its bias. The weights are constants."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, packed, scale, bias, n, k, format):
        return ops.linear(x, packed, scale, bias, n, k, format)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, packed, scale, bias, *sizes = inputs
        ctx.save_for_backward(packed, scale)
        ctx.sizes = sizes
        ctx.bias_type = None if bias is None else bias.dtype

    @staticmethod
    def backward(ctx, grad):
        packed, scale = ctx.saved_tensors
        n, k, format = ctx.sizes
        of_x = of_bias = None
        if ctx.needs_input_grad[0]:
            of_x = grad @ ops.dense_weights(packed, scale, 1, n, k, format, grad.dtype)[0]
        if ctx.needs_input_grad[3]:
            of_bias = grad.reshape(-1, n).sum(0, dtype=torch.float32).to(ctx.bias_type)
        return of_x, None, None, of_bias, None, None, None


class _ForwardProduct(_Product):
    """_Product with tangents of the input and the bias."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        _Product.setup_context(ctx, inputs, output)
        ctx.save_for_forward(inputs[1], inputs[2])
        ctx.shape = output.shape

    @staticmethod
    def jvp(ctx, of_x, _packed, _scale, of_bias, *_):
        packed, scale = ctx.saved_tensors
        if of_x is None:
            return of_bias.expand(ctx.shape)
        tangent = ops.linear(of_x, packed, scale, None, *ctx.sizes)
        return tangent if of_bias is None else tangent + of_bias


def product(*arguments: Any) -> Tensor:
    """ops.linear with derivatives."""
    return (_ForwardProduct if in_forward_mode() else _Product).apply(*arguments)


class Linear(PackedModule):
    """x @ weight.T + bias, the weights (out_features, in_features) in 4 or 8 bits each; weights do not
    train.

    format: nvfp4, mxfp4, mxfp8_e4m3 (or mxfp8), mxfp8_e5m2; in_features is a multiple of its block, 16 or
    32. x is float32, bfloat16 or float16, of any leading axes, and has a gradient; so has the bias where
    it requires one. On a GPU float32 is rounded to bfloat16 before it is multiplied. A new one has
    weights of zeros: load a state dict, whose tensors are those of a compressed-tensors checkpoint
    (weight_packed, weight_scale, weight_global_scale) or a dense weight, or use from_linear.
    """

    packed: Tensor
    global_scale: Tensor | None
    bias: nn.Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        format: str = "nvfp4",
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        format = require_format(format, in_features, "in_features")
        super().__init__(format, [WeightSet("", out_features, in_features, ("",))])
        self.in_features, self.out_features = in_features, out_features
        self._set_nothing(self._sets[0], device)
        self._add_bias(
            "bias", "bias", torch.zeros(out_features, device=device, dtype=dtype) if bias else None
        )

    @classmethod
    def _made(cls, parts: Parts, n: int, k: int, format: str, bias: Tensor | None) -> Linear:
        made = cls(k, n, require_format(format, k, "in_features"), bias=False, device="meta")
        made._set_weights(made._sets[0], [parts])
        made._add_bias("bias", "bias", bias)
        return made

    @classmethod
    def from_linear(cls, linear: nn.Linear, format: str = "nvfp4", **options: Any) -> Linear:
        """Quantizes the weights where they are. options: keywords of microscale.quantize (scale_rule,
        compat, ...). The bias is shared."""
        require_linear("linear", linear)
        format = require_format(format, linear.in_features, "in_features")
        parts = quantized(linear.weight, format, **options)
        made = cls._made(parts, linear.out_features, linear.in_features, format, linear.bias)
        return made.train(linear.training)

    @classmethod
    def from_block_tensor(cls, weight: _core.BlockTensor, bias: Tensor | None = None) -> Linear:
        """Of weights (out_features, in_features) that are quantized already, by numpy or torch."""
        if not isinstance(weight, _core.BlockTensor):
            raise TypeError(
                f"weight: expected a microscale.BlockTensor, got {type(weight).__name__}; "
                "microscale.quantize makes one"
            )
        if len(weight.shape) != 2 or weight.axis != -1:
            raise ValueError(f"weight: {weight!r}; pass a matrix with blocks along the last axis")
        return cls._made(Parts.of(weight), *weight.shape, weight.format, bias)

    @classmethod
    def from_compressed_tensors(cls, module: nn.Module) -> Linear:
        """Of a module that compressed-tensors or transformers has loaded: its weight_packed, weight_scale
        and weight_global_scale, or, of MXFP8, weight and weight_scale."""
        codes = getattr(module, "weight_packed", None)
        if codes is None:
            codes = getattr(module, "weight", None)
        scales = getattr(module, "weight_scale", None)
        if codes is None or scales is None or codes.element_size() != 1:
            raise ValueError(
                f"module: {type(module).__name__} has no weight_packed and weight_scale; is it decompressed?"
            )
        divisor = getattr(module, "weight_global_scale", None)
        wide = getattr(module, "weight_packed", None) is None
        if wide:
            format = "mxfp8_e5m2" if codes.dtype == torch.float8_e5m2 else "mxfp8_e4m3"
        else:
            format = "mxfp4" if divisor is None else "nvfp4"
        n, k = codes.shape[0], codes.shape[1] * (1 if wide else 2)
        parts = Parts(
            codes.detach().view(torch.uint8),
            scales.detach().view(torch.uint8),
            None if divisor is None else divisor.detach(),
        )
        return cls._made(parts, n, k, format, getattr(module, "bias", None)).train(module.training)

    @property
    def weight(self) -> Tensor:
        """The dense weights, made anew at each call, for code that reads them: of the bias's type, or
        bfloat16."""
        bias = self.bias
        dtype = bias.dtype if bias is not None and bias.dtype != torch.float64 else torch.bfloat16
        return self._dense(self._sets[0], 0, dtype)[0]

    def block_tensor(self) -> _core.BlockTensor:
        """The weights as a BlockTensor; on the CPU a view of them."""
        parts = self._weights(self._sets[0])[0]
        return _core.BlockTensor.from_parts(
            parts.codes[0].contiguous(), parts.scales[0].contiguous(), self.global_scale, format=self.format
        )

    def forward(self, x: Tensor) -> Tensor:
        buffers, bias = self._buffers, self._parameters["bias"]  # a lookup each; attributes cost more
        packed, scale = buffers["packed"], buffers["global_scale"]
        try:
            differentiate = (
                torch.is_grad_enabled() and (x.requires_grad or bias is not None and bias.requires_grad)
            ) or in_forward_mode()
        except AttributeError:
            raise no_tensor("x", x) from None
        if differentiate:
            return product(x, packed, scale, bias, self.out_features, self.in_features, self.format)
        return ops.linear(x, packed, scale, bias, self.out_features, self.in_features, self.format)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, format={self.format}, "
            f"bias={self.bias is not None}"
        )
