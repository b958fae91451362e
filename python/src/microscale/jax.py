"""JAX: quantize, dequantize, matmul and attention as foreign functions of XLA, on the CPU and on CUDA.

    import microscale.jax as msj
    w = msj.quantize(weights)            # a BlockArray: codes, scales, global scale; a pytree
    y = jax.jit(msj.matmul)(x, w)        # x @ weights.T, with a gradient for x

jit, vmap (call by call) and shard_map take them; matmul has a gradient. Needs jax 0.5 or newer.
"""

from __future__ import annotations

from functools import partial
from typing import Any

try:
    import jax
    import jax.numpy as jnp
    import numpy as np
except ImportError as error:
    raise ImportError("microscale.jax needs JAX: pip install jax") from error

from . import _core
from ._arrays import _numpy_of
from ._jax_axes import axes_of, result_over, varying

_BITS = {"nvfp4": 4, "mxfp4": 4}
_DENSE = (jnp.float32, jnp.bfloat16, jnp.float16)
_handlers = _core.jax_handlers()
if not _handlers:
    raise ImportError(
        "microscale.jax: this build has no handlers; build the wheel where jaxlib is installed (for its "
        "headers), or pass its include folder as MICROSCALE_XLA_INCLUDE"
    )
for _name, (_cpu, _cuda) in _handlers.items():
    jax.ffi.register_ffi_target(f"microscale_{_name}", _cpu, platform="cpu", api_version=1)
    jax.ffi.register_ffi_target(f"microscale_{_name}", _cuda, platform="CUDA", api_version=1)
if _core.cuda_device_count() > 0 and jax.default_backend() == "gpu":
    _core.cuda_load_kernels()  # XLA captures graphs, and a capture must not meet a kernel that is not loaded


@jax.tree_util.register_pytree_with_keys_class
class BlockArray:
    """A block-scaled array: codes and scales, uint8, and of NVFP4 the decode multiplier, float32 of one
    element. A pytree of the three; format is static."""

    def __init__(self, codes: Any, scales: Any, global_scale: Any = None, *, format: str) -> None:
        self.codes, self.scales, self.global_scale, self.format = codes, scales, global_scale, format

    def tree_flatten(self) -> tuple[tuple[Any, ...], str]:
        return (self.codes, self.scales, self.global_scale), self.format

    def tree_flatten_with_keys(self) -> tuple[tuple[tuple[Any, Any], ...], str]:
        names = ("codes", "scales", "global_scale")
        return tuple((jax.tree_util.GetAttrKey(name), getattr(self, name)) for name in names), self.format

    @classmethod
    def tree_unflatten(cls, format: str, children: tuple[Any, ...]) -> BlockArray:
        return cls(*children, format=format)

    @classmethod
    def of(cls, tensor: _core.BlockTensor) -> BlockArray:
        """A BlockTensor (of torch or a GPU: by way of the host), with row-major scales and blocks along the
        last axis."""
        if not isinstance(tensor, _core.BlockTensor):
            raise TypeError(f"tensor: expected a microscale.BlockTensor, got {type(tensor).__name__}")
        if tensor.layout != "row_major" or tensor.axis != -1:
            raise ValueError(f"tensor: {tensor!r}; pass row_major scales and blocks along the last axis")
        tensor = tensor.to("cpu")
        parts = (_numpy_of(part).view(np.uint8) for part in (tensor.codes, tensor.scales))
        codes, scales = (jnp.asarray(part) for part in parts)
        scale = tensor.global_scale
        if scale is not None:
            number = scale if isinstance(scale, float) else _numpy_of(scale)
            scale = jnp.asarray(number, jnp.float32).reshape(1)
        return cls(codes, scales, scale, format=tensor.format)

    def block_tensor(self) -> _core.BlockTensor:
        """As a microscale.BlockTensor of numpy, for the functions of microscale and to be saved."""
        scale = None if self.global_scale is None else float(np.asarray(self.global_scale)[0])
        return _core.BlockTensor.from_parts(
            np.asarray(self.codes), np.asarray(self.scales), scale, format=self.format
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the dense array."""
        return (*self.codes.shape[:-1], self.codes.shape[-1] * 8 // _BITS.get(self.format, 8))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Of codes, scales and global scale."""
        return sum(leaf.nbytes for leaf in jax.tree.leaves(self))

    def dequantize(self, dtype: Any = jnp.float32) -> jax.Array:
        return dequantize(self, dtype)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            "a BlockArray is no array of numbers: dequantize() makes one of it, and "
            "microscale.jax.matmul(x, w) multiplies by it"
        )

    def __repr__(self) -> str:
        if not hasattr(self.codes, "shape"):  # of a tree whose leaves are no arrays
            leaves = ", ".join(repr(leaf) for leaf in (self.codes, self.scales, self.global_scale))
            return f"BlockArray({leaves}, format={self.format!r})"
        return f"BlockArray({self.shape}, format={self.format!r})"


def _call(name: str, results: Any, arguments: list[Any], **attributes: Any) -> Any:
    given = [a for a in arguments if a is not None]
    axes = axes_of(*given)
    results = jax.tree.map(partial(result_over, axes), results)
    call = jax.ffi.ffi_call(f"microscale_{name}", results, vmap_method="sequential")
    return call(*(varying(a, axes) for a in given), **attributes)


def _dtype_of(dtype: Any, name: str) -> Any:
    names = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
    try:
        found = dtype if dtype is None else jnp.dtype(names.get(dtype, dtype))
    except TypeError:
        found = dtype
    if found not in _DENSE:
        raise ValueError(f"{name}: {found}; pass float32, bfloat16 or float16")
    return found


def _dense(x: Any, name: str) -> Any:
    try:
        x = jnp.asarray(x)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: expected an array, got {type(x).__name__}") from None
    if x.dtype not in _DENSE or x.ndim == 0:
        raise ValueError(
            f"{name}: {x.dtype} of shape {x.shape}; pass float32, bfloat16 or float16 with an axis or more"
        )
    return x


def _blocks(t: Any, name: str) -> BlockArray:
    if not isinstance(t, BlockArray):
        raise TypeError(
            f"{name}: expected a BlockArray, got {type(t).__name__}; quantize makes one, and "
            "BlockArray.of one of a microscale.BlockTensor"
        )
    return t


def quantize(
    x: Any, format: str = "nvfp4", *, scale_rule: str | None = None, global_scale: Any = None
) -> BlockArray:
    """Quantizes x along its last axis, a multiple of the format's block (16 for nvfp4, else 32).

    global_scale: NVFP4's decode multiplier, float32 of one element; computed from all of x if left out.
    """
    x = _dense(x, "x")
    format = {"mxfp8": "mxfp8_e4m3"}.get(format, format)
    if format not in _core.formats():
        raise ValueError(f"format: there is no '{format}'; choose one of {', '.join(_core.formats())}")
    if scale_rule is not None and scale_rule not in _core.scale_rules(format):
        raise ValueError(
            f"scale_rule: {format} has {', '.join(_core.scale_rules(format))}, not '{scale_rule}'"
        )
    block = 16 if format == "nvfp4" else 32
    if x.shape[-1] % block:
        raise ValueError(
            f"x: its last axis, {x.shape[-1]}, is no multiple of the block of {format}, {block}"
        )
    if global_scale is not None:
        if format != "nvfp4":
            raise ValueError(f"global_scale: {format} has none; leave it out")
        global_scale = jnp.asarray(global_scale, jnp.float32).reshape(1)
    results = [
        jax.ShapeDtypeStruct((*x.shape[:-1], x.shape[-1] * _BITS.get(format, 8) // 8), jnp.uint8),
        jax.ShapeDtypeStruct((*x.shape[:-1], x.shape[-1] // block), jnp.uint8),
    ]
    if format == "nvfp4" and global_scale is None:
        results.append(jax.ShapeDtypeStruct((1,), jnp.float32))
    codes, scales, *computed = _call(
        "quantize", results, [x, global_scale], format=format, scale_rule=scale_rule or ""
    )
    return BlockArray(codes, scales, computed[0] if computed else global_scale, format=format)


def dequantize(t: BlockArray, dtype: Any = jnp.float32) -> jax.Array:
    """The values, rounded to nearest even to float32, bfloat16 or float16."""
    t = _blocks(t, "t")
    parts = [t.codes, t.scales, t.global_scale]
    result = jax.ShapeDtypeStruct(t.shape, _dtype_of(dtype, "dtype"))
    return _call("dequantize", result, parts, format=t.format)


def _on_platforms(call: Any, first: Any, *rest: Any) -> Any:
    """GPUs multiply 16-bit numbers: FP32 is rounded to BF16 there."""
    if first.dtype != jnp.float32:
        return call(first, *rest)

    def rounded(*arrays: Any) -> Any:
        return call(
            *(a.astype(jnp.bfloat16) if a.dtype == jnp.float32 and a.ndim > 1 else a for a in arrays)
        )

    return jax.lax.platform_dependent(first, *rest, cuda=rounded, default=call)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _matmul(a: Any, b: BlockArray, dtype: Any) -> Any:
    arrays = [b.codes, b.scales] + ([] if b.global_scale is None else [b.global_scale])
    result = jax.ShapeDtypeStruct((*a.shape[:-1], b.shape[0]), dtype)
    return _on_platforms(
        lambda a, *parts: _call("matmul", result, [a, *parts], format=b.format), a, *arrays
    )


def _matmul_forward(a: Any, b: BlockArray, dtype: Any) -> tuple[Any, Any]:
    return _matmul(a, b, dtype), (b, jax.lax.full_like(a, 0, shape=()))


def _matmul_backward(dtype: Any, kept: Any, grad: Any) -> tuple[Any, Any]:
    b, like = kept

    def nothing(leaf: Any) -> Any:
        whole = jnp.issubdtype(leaf.dtype, jnp.integer)
        if whole:
            return np.zeros(leaf.shape, jax.dtypes.float0)
        return varying(jnp.zeros_like(leaf), axes_of(leaf))

    of_a = (grad @ dequantize(b, grad.dtype)).astype(like.dtype)
    if others := axes_of(of_a) - axes_of(like):
        of_a = jax.lax.psum(of_a, tuple(others))  # each device had other weights, and all had this a
    return of_a, jax.tree.map(nothing, b)


_matmul.defvjp(_matmul_forward, _matmul_backward)


def matmul(a: Any, b: BlockArray, *, out_dtype: Any = None) -> jax.Array:
    """a @ b.T: a (..., k), b weights (n, k). The result is (..., n), of a's type or out_dtype. Its gradient
    is a's; the weights are constants."""
    a = _dense(a, "a")
    b = _blocks(b, "b")
    if len(b.shape) != 2:
        raise ValueError(f"b: of shape {b.shape}; pass weights (n, k)")
    if a.shape[-1] != b.shape[1]:
        raise ValueError(f"a: of shape {a.shape}, its last axis must have the weights' k = {b.shape[1]}")
    return _matmul(a, b, a.dtype if out_dtype is None else _dtype_of(out_dtype, "out_dtype"))


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    scale: float | None = None,
    causal: bool = False,
    window: int = 0,
    softcap: float = 0.0,
) -> jax.Array:
    """softmax(scale * q @ k.T + mask) @ v: q (batch, tokens, heads, d), k and v (batch, tokens, kv_heads,
    d), d a multiple of 32 up to 256. scale: 1 / sqrt(d) if left out. window: keys a query sees; 0 is all.
    The keywords are numbers, not traced: bind them by functools.partial, or name them in static_argnames."""
    q, k, v = (_dense(array, name) for array, name in ((q, "q"), (k, "k"), (v, "v")))
    for array, name in ((q, "q"), (k, "k"), (v, "v")):
        if array.ndim != 4 or array.shape[3] != q.shape[3] or array.shape[0] != q.shape[0]:
            raise ValueError(
                f"{name}: of shape {array.shape}; pass (batch, tokens, heads, d), with one batch and d"
            )
    if k.shape != v.shape or q.shape[2] % k.shape[2]:
        raise ValueError(f"k, v: of shapes {k.shape} and {v.shape} beside {q.shape[2]} heads of q")
    words = {
        "scale": np.float32(q.shape[3] ** -0.5 if scale is None else scale),
        "causal": bool(causal),
        "window": np.int64(window),
        "softcap": np.float32(softcap),
    }
    result = jax.ShapeDtypeStruct(q.shape, q.dtype)
    return _on_platforms(lambda *arrays: _call("attention", result, list(arrays), **words), q, k, v)


__all__ = ["BlockArray", "attention", "dequantize", "matmul", "quantize"]
