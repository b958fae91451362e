import os


import os
from collections.abc import Sequence
from typing import Any

from microscale._types import Array, DTypeLike, Progress, Stream

def cli(arguments: Sequence[str]) -> int: ...

def set_defaults(backend: str, threads: int, stream: Stream) -> tuple[str, int, int | None]: ...

def available_backends() -> list[str]:
    """
    Names of the CPU's backends that this machine runs, the fastest first. MICROSCALE_BACKEND=name
    in the environment narrows the list to that one.
    """

def formats() -> list[str]:
    """Names of all formats."""

def scale_rules(format: str) -> list[str]:
    """Names of the scale rules of a format, the default first."""

def cuda_device_count() -> int:
    """The number of GPUs; 0 without a driver."""

def cuda_unavailable_reason() -> str:
    """Says why device_count() is 0; empty otherwise."""

def cuda_current_device() -> int:
    """
    The number of the calling thread's current GPU. Raises NotImplementedError without one.
    """

def cuda_select_device(ordinal: int) -> None:
    """Makes a GPU the calling thread's current one, as cudaSetDevice does."""

def cuda_device_name() -> str:
    """Name of the current GPU, and the architecture whose kernels it runs."""

def cuda_load_kernels() -> None:
    """
    Loads all kernels of the current GPU, as the first call on it does. Call it before a graph
    is captured.
    """

def cuda_synchronize(stream: Stream = None) -> None:
    """Waits for all work of a stream, the default one if left out."""

def cuda_is_capturing(stream: Stream = None) -> bool:
    """Whether a stream of the current GPU is being captured into a graph."""

class DeviceArray:
    """
    Memory of a GPU without PyTorch or CuPy; of the emulated GPU with
    MICROSCALE_BACKEND=emulator-sm90. Rows lie side by side. Its memory is freed with it: keep it
    until the work that uses it is done.
    """

    @staticmethod
    def empty(shape: int | Sequence[int], dtype: str = 'uint8', *, device: int = 0) -> DeviceArray:
        """
        Not initialised. Raises MemoryError, or NotImplementedError where there is no GPU.
        """

    @staticmethod
    def from_host(array: Array, *, device: int = 0) -> DeviceArray:
        """A copy of an array of the CPU, in the order of the default stream."""

    def numpy(self, *, stream: Stream = None) -> Array:
        """A copy on the CPU. Waits for all work of `stream` (the default one)."""

    def copy_from(self, array: Array, *, stream: Stream = None) -> None:
        """
        Writes an array of the CPU, of this one's type and shape, in the order of `stream`.
        """

    def __array__(self, *args: Any, **kwargs: Any) -> Any: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> str:
        """The name of the elements' type."""

    @property
    def nbytes(self) -> int: ...

    @property
    def device(self) -> str: ...

    @property
    def ptr(self) -> int:
        """The address."""

    def __dlpack__(self, **kwargs: Any) -> Any: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...

    def __repr__(self) -> str: ...

class BlockTensor:
    """
    A tensor in a block-scaled format: codes, block scales and, of NVFP4, a global scale.

    Its parts are arrays of the framework that it was made with, and stay its own: value =
    code * block scale * global scale. Made by quantize and from_parts.
    """

    __array_ufunc__: None = None

    @staticmethod
    def from_parts(codes: Array, scales: Array, global_scale: float | Array | None = None, *, format: str, shape: Sequence[int] | None = None, axis: int = -1, layout: str = 'row_major') -> BlockTensor:
        """
        Takes arrays as they are, without a copy.

        codes: bytes, two FP4 codes each (the even element in the low nibble) or one code;
        scales: one byte a block, E4M3 for nvfp4 and E8M0 for the others; global_scale: the
        decode multiplier of NVFP4, a number or a float32 array of one element (or one per
        expert). shape: of the dense tensor; from that of codes if left out.
        Raises ValueError where sizes, types or devices do not fit together.
        """

    @staticmethod
    def from_compressed_tensors(weight_packed: Array, weight_scale: Array, weight_global_scale: Array | None = None) -> BlockTensor:
        """
        Takes the tensors of a layer as compressed-tensors stores them.

        With weight_global_scale (a divisor there) the format is nvfp4, without it mxfp4, or
        mxfp8 where weight_packed has the type float8_e4m3fn.
        """

    @property
    def codes(self) -> Array:
        """The array of codes, bytes: (..., bytes of a line)."""

    @property
    def scales(self) -> Array:
        """
        The array of block scales, bytes: (..., blocks of a line), or one axis if tiled.
        """

    @property
    def global_scale(self) -> float | Array | None:
        """
        NVFP4: the decode multiplier, a number on the CPU, a float32 array on a GPU.
        """

    @property
    def format(self) -> str:
        """'nvfp4', 'mxfp4', 'mxfp8_e4m3', ..."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the dense tensor."""

    @property
    def ndim(self) -> int: ...

    @property
    def axis(self) -> int:
        """The axis along which elements share a scale: -1, or -2."""

    @property
    def layout(self) -> str:
        """Of the scales: 'row_major' or 'tiled_128x4'."""

    @property
    def device(self) -> str:
        """'cpu', or 'cuda:0', ..."""

    @property
    def nbytes(self) -> int:
        """Bytes of codes, scales and global scale."""

    def dequantize(self, dtype: DTypeLike = None, *, out: Array | None = None, backend: str | None = None, threads: int | None = None, stream: Stream = None) -> Array:
        """As microscale.dequantize."""

    def to(self, device: object) -> BlockTensor:
        """
        On another device, 'cpu' or 'cuda:N'. Of numpy, to a GPU: as DeviceArray.
        """

    def to_compressed_tensors(self) -> dict[str, Array]:
        """
        The tensors of a layer by the names that compressed-tensors has, and vLLM loads:
        weight_packed, weight_scale and, of nvfp4, weight_global_scale, a divisor; of mxfp8 weight
        and weight_scale. Views where they can be. Raises ValueError for what that has no name for:
        other formats, tiled scales, blocks down the columns.
        """

    def as_torch_float4(self) -> Array:
        """The codes viewed as torch.float4_e2m1fn_x2."""

    def __reduce__(self) -> tuple[Any, ...]: ...

    def __array__(self, *args: Any, **kwargs: Any) -> Any: ...

    def __repr__(self) -> str: ...

class PackedWeights:
    """
    Weights that pack_weights has rearranged for products: fewer bytes to read, no work at each
    call. Made for the CPU or for the GPU they are on; pickled, they stay for that.
    """

    @staticmethod
    def from_parts(bytes: Array, global_scale: float | Array | None = None, up_global_scale: float | Array | None = None, *, shape: Sequence[int], format: str, gated: bool = False) -> PackedWeights:
        """
        Takes bytes that pack_weights made, for example from a file. Raises ValueError where
        there are not as many as shape and format need.
        """

    @property
    def bytes(self) -> Array:
        """The array of bytes."""

    @property
    def global_scale(self) -> float | Array | None: ...

    @property
    def up_global_scale(self) -> float | Array | None: ...

    @property
    def format(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, k), or (matrices, n, k)."""

    @property
    def gated(self) -> bool: ...

    @property
    def nbytes(self) -> int: ...

    def __reduce__(self) -> tuple[Any, ...]: ...

    def __repr__(self) -> str: ...

def pack_weights(b: BlockTensor, *, backend: str | None = None, threads: int | None = None, stream: Stream = None) -> PackedWeights:
    """
    Rearranges weights (n, k), or (matrices, n, k), once, for matmul and grouped_matmul.

    A product of packed weights has the same bound of error, and on the CPU the same bytes.
    """

def pack_gated_weights(gate: BlockTensor, up: BlockTensor, *, backend: str | None = None, threads: int | None = None, stream: Stream = None) -> PackedWeights:
    """
    As pack_weights, of the two projections of a gated layer: for gated_matmul.
    """

def quantize(x: Array, format: str = 'nvfp4', *, axis: int = -1, layout: str = 'row_major', scale_rule: str | None = None, rounding: str | None = None, compat: str | None = None, nan: str | None = None, inf: str | None = None, zero_code: str | None = None, seed: int = 0, global_scale: float | Array | None = None, tensor_amax: float | None = None, weights: Array | None = None, pad: bool = False, refuse_non_finite: bool = False, first_index: int = 0, out: BlockTensor | None = None, backend: str | None = None, threads: int | None = None, stream: Stream = None) -> BlockTensor:
    """
    Quantizes an array: float32, bfloat16 or float16, of any number of axes.

    format: nvfp4, mxfp4, mxfp8_e4m3, mxfp8_e5m2, mxfp6_e2m3, mxfp6_e3m2, mxint8. Blocks of 16
    (nvfp4) or 32 elements lie along the last axis; axis=-2 lays them down the columns of a
    matrix. The axis must be a multiple of the block, unless pad=True fills up with zeros.
    global_scale: NVFP4's decode multiplier; computed from the array, or from tensor_amax, if
    left out. weights: float32, importance of each position along the axis, for rules that
    search. layout: of the scales, 'row_major' or 'tiled_128x4'. The other keywords are those of
    docs/formats/numerics.md. out: a BlockTensor of an earlier call with the same shape, to be
    written again.

    The result's arrays are of the framework and on the device of x, and on a GPU the call
    returns before the work is done. Raises ValueError for what does not fit, and, with
    refuse_non_finite, for NaN and infinity; NotImplementedError for what the backend has not.
    """

def quantize_both(x: Array, format: str = 'nvfp4', *, layout: str = 'row_major', scale_rule: str | None = None, rounding: str | None = None, compat: str | None = None, nan: str | None = None, inf: str | None = None, zero_code: str | None = None, seed: int = 0, global_scale: float | Array | None = None, tensor_amax: float | None = None, pad: bool = False, refuse_non_finite: bool = False, first_index: int = 0, backend: str | None = None, threads: int | None = None, stream: Stream = None) -> tuple[BlockTensor, BlockTensor]:
    """
    Quantizes a matrix along both axes, as training needs: blocks along the rows, and blocks
    down the columns, with one NVFP4 global scale. The same bytes as two calls of quantize.
    """

def dequantize(t: BlockTensor, dtype: DTypeLike = None, *, out: Array | None = None, backend: str | None = None, threads: int | None = None, stream: Stream = None) -> Array:
    """
    The values of a block tensor, rounded to nearest even.

    dtype: 'f32', 'bf16', 'f16' or a framework's type; float32 on the CPU and bfloat16 on a GPU
    if left out. out: an array of t's shape to write to.
    """

def quantize_with_hessian(x: Array, hessian: Array, format: str = 'nvfp4', *, method: str = 'gptq', shrink: float | None = None, tokens: int | None = None, damping: float = 0.01, scale_rule: str = 'search', global_scale: float | Array | None = None, tensor_amax: float | None = None, backend: str | None = None, threads: int | None = None, stream: Stream = None) -> BlockTensor:
    """
    Quantizes the weight of a layer, (n, k), so that the layer's output changes least, on the
    CPU. hessian: float32 (k, k), the mean of x x^T over its inputs x.

    format: nvfp4 or mxfp4. method: 'gptq', or 'block-hessian', which chooses scales only.
    shrink: part by which numbers off the diagonal become smaller; left out, 0.1, and where
    `tokens`, of which the Hessian is the mean, are fewer than 64 k, 0.3. damping: part of the
    diagonal's mean that is added to it, more where it takes more. scale_rule: search or full
    (nvfp4). The rest as quantize. docs/formats/accuracy.md defines the bytes. Raises ValueError.
    """

def output_error(x: Array, t: BlockTensor, hessian: Array, *, backend: str | None = None, threads: int | None = None, stream: Stream = None) -> tuple[float, float]:
    """
    What quantizing a weight x to t costs at the output of its layer, and the output's own
    size: tr((t - x) hessian (t - x)^T) and tr(x hessian x^T). On the CPU.
    """

def abs_max(x: Array, *, backend: str | None = None, threads: int | None = None, stream: Stream = None) -> float:
    """
    The largest magnitude of an array on the CPU; NaN is ignored. On a GPU, where it would have
    to wait, it raises NotImplementedError.
    """

def nvfp4_global_scale(amax: float, compat: str | None = None) -> float:
    """
    The decode multiplier of an NVFP4 tensor whose largest magnitude is amax; with compat, that
    which another tool computes. Raises ValueError for a negative number or NaN.
    """

def repack_scales(t: BlockTensor, layout: str, *, backend: str | None = None, threads: int | None = None, stream: Stream = None) -> BlockTensor:
    """
    The same tensor with its scales in another layout, 'row_major' or 'tiled_128x4'. Shares the
    codes.
    """

def to_containers(codes: Array, *, out: Array | None = None, backend: str | None = None, threads: int | None = None, stream: Stream = None) -> Array:
    """
    FP4 codes, two a byte, as one code a byte in bits 5 to 2: what kind::mxf8f6f4 reads. The last
    axis becomes twice as long.
    """

def from_containers(codes: Array, *, out: Array | None = None, backend: str | None = None, threads: int | None = None, stream: Stream = None) -> Array:
    """The way back of to_containers."""

def matmul(a: Array | BlockTensor, b: BlockTensor | PackedWeights, *, bias: Array | None = None, alpha: float = 1.0, out: Array | BlockTensor | None = None, out_dtype: DTypeLike = None, out_format: str | None = None, out_global_scale: float | Array | None = None, out_layout: str = 'row_major', fast_accumulation: bool = False, constant_weights: bool = False, backend: str | None = None, threads: int | None = None, stream: Stream = None) -> Any:
    """
    alpha * a @ b.T + bias.

    a: (..., k), float32, bfloat16, float16, or a BlockTensor; b: weights (n, k), with blocks
    along k; or a: (batch, m, k) and b: (batch, n, k). bias: n numbers. The result is (..., n),
    of a's type, bfloat16 where a is a BlockTensor, or out_dtype. With out_format it is a
    BlockTensor; NVFP4 then needs out_global_scale. out: an array, or BlockTensor, to write to.
    fast_accumulation: twice the rate on Hopper for MXFP4 by MXFP4, 13 bits of sums of 128.
    constant_weights: promises that nothing writes the weights any more (a GPU then reads them
    earlier).

    The same call gives the same bytes every time. docs/matmul.md has the bound of error and
    which formats each backend multiplies; others raise NotImplementedError.
    """

def gated_matmul(a: Array | BlockTensor, gate: BlockTensor | PackedWeights, up: BlockTensor | None = None, *, activation: str = 'silu', gate_bias: Array | None = None, up_bias: Array | None = None, alpha: float = 1.0, out: Array | BlockTensor | None = None, out_dtype: DTypeLike = None, out_format: str | None = None, out_global_scale: float | Array | None = None, out_layout: str = 'row_major', fast_accumulation: bool = False, constant_weights: bool = False, backend: str | None = None, threads: int | None = None, stream: Stream = None) -> Any:
    """
    activation(alpha * a @ gate.T + gate_bias) * (alpha * a @ up.T + up_bias).

    activation: 'silu' or 'gelu_tanh'. gate: weights as of matmul, or what pack_gated_weights
    made of both, and up left out. The rest as matmul.
    """

def grouped_matmul(a: Array | BlockTensor, b: BlockTensor | PackedWeights, *, offsets: Array | None = None, counts: Array | None = None, capacity: int = 0, row_weights: Array | None = None, bias: Array | None = None, alpha: float = 1.0, out: Array | BlockTensor | None = None, out_dtype: DTypeLike = None, out_format: str | None = None, out_global_scale: float | Array | None = None, out_layout: str = 'row_major', fast_accumulation: bool = False, constant_weights: bool = False, backend: str | None = None, threads: int | None = None, stream: Stream = None) -> Any:
    """
    The rows of many experts, each by its expert's weights (a mixture of experts).

    a: (rows, k). b: (experts, n, k). Expert e has the rows offsets[e] to offsets[e + 1], or the
    first counts[e] of the rows from e * capacity on; int32 or int64, one or the other.
    row_weights: float32, one for each row. bias: (experts, n). Rows without an expert are not
    read; they are zeros in a new result and stay as they are in out. A BlockTensor a is of
    grouped_quantize. The rest as matmul.
    """

def packed_matmul(a: Array, packed: Array, global_scale: Array | None, bias: Array | None, n: int, k: int, format: str, dtype: DTypeLike = None, out: Array | None = None) -> Any:
    """matmul by the bytes of a PackedWeights of shape (n, k)."""

def packed_matmul_out(a: Array, packed: Array, global_scale: Array | None, bias: Array | None, n: int, k: int, format: str, out: Array) -> None:
    """
    packed_matmul into out: the kernel of an operator as it is, with no Python around it.
    """

def packed_gated_matmul(a: Array, packed: Array, global_scale: Array | None, up_global_scale: Array | None, gate_bias: Array | None, up_bias: Array | None, n: int, k: int, format: str, activation: str = 'silu', dtype: DTypeLike = None, out: Array | None = None) -> Any:
    """
    gated_matmul by the bytes of what pack_gated_weights makes of two matrices (n, k).
    """

def packed_grouped_matmul(a: Array, packed: Array, global_scale: Array | None, bias: Array | None, offsets: Array | None, counts: Array | None, capacity: int, row_weights: Array | None, experts: int, n: int, k: int, format: str, dtype: DTypeLike = None, out: Array | None = None) -> Any:
    """
    grouped_matmul by the bytes of a PackedWeights of shape (experts, n, k).
    """

def jax_handlers() -> dict[str, tuple[Any, Any]]:
    """
    Handlers of XLA's foreign functions, for the CPU and for CUDA; none where the wheel was
    built without jaxlib's headers.
    """

def silu_mul_quantize(gate: Array, up: Array, *, format: str = 'nvfp4', layout: str = 'row_major', global_scale: float | Array | None = None, scale_rule: str | None = None, rounding: str | None = None, seed: int = 0, backend: str | None = None, threads: int | None = None, stream: Stream = None) -> BlockTensor:
    """
    SiLU(gate) * up, quantized in the same pass: the bytes are those of quantizing the float32
    product. gate and up: of one shape and type. NVFP4 needs global_scale.
    """

def rms_norm_quantize(x: Array, weight: Array | None = None, *, eps: float = 1e-06, residual: Array | None = None, format: str = 'nvfp4', layout: str = 'row_major', global_scale: float | Array | None = None, scale_rule: str | None = None, rounding: str | None = None, seed: int = 0, backend: str | None = None, threads: int | None = None, stream: Stream = None) -> Any:
    """
    x / sqrt(mean(x * x) + eps) * weight of each row, quantized in the same pass.

    weight: of x's type, one for each element of a row. With residual, of x's shape and type, the
    sum x + residual is normed, and the result is (BlockTensor, sum).
    """

def rms_norm(x: Array, weight: Array | None, eps: float, residual: Array | None = None) -> Any:
    """
    rms_norm_quantize without a quantizer, on the CPU: the matrix in x's type.
    """

def hadamard_quantize(x: Array, *, order: int = 32, negated: int | None = None, format: str = 'nvfp4', layout: str = 'row_major', global_scale: float | Array | None = None, scale_rule: str | None = None, rounding: str | None = None, seed: int = 0, backend: str | None = None, threads: int | None = None, stream: Stream = None) -> BlockTensor:
    """
    The orthonormal Hadamard transform of each run of `order` neighbours (16, 32, 64 or 128),
    quantized in the same pass. negated: bit i says whether element i of every run changes its
    sign first.
    """

def grouped_quantize(x: Array, *, offsets: Array | None = None, counts: Array | None = None, capacity: int = 0, format: str = 'nvfp4', layout: str = 'row_major', global_scale: float | Array | None = None, scale_rule: str | None = None, backend: str | None = None, threads: int | None = None, stream: Stream = None) -> BlockTensor:
    """
    Quantizes the rows (rows, k) of many experts, for grouped_matmul.

    Rows of experts as in grouped_matmul. NVFP4 needs global_scale: one number, or float32, one
    for each expert (on a GPU always that). Tiled scales lie expert by expert. Rows without an
    expert are zeros.
    """

class KvCache:
    """
    A cache of keys and values in 4 or 8 bits; docs/attention.md has its formats and pages.

    Made by allocate, or of arrays that exist: from_parts, from_memory. The arrays are those of a
    framework and may be written: lengths (int32, the tokens of each sequence) and page_table.
    """

    @staticmethod
    def allocate(batch: int, kv_heads: int, head_dim: int, max_tokens: int, *, format: str = 'nvfp4', page_size: int | None = None, pages: int | None = None, first: int = 0, recent: int = 0, hadamard: int = 0, k_global_scale: float = 1.0, v_global_scale: float = 1.0, device: str = 'cpu', like: Array | None = None) -> KvCache:
        """
        An empty cache of `batch` sequences of up to max_tokens tokens, rounded up to whole pages
        (to a multiple of 16 without page_size).

        format: nvfp4, mxfp4, mxfp8 or fp8. page_size: 16, 32 or 64 makes it paged, with a page
        table that gives each sequence its own pages, in order; pages: in all, if more than that.
        first, recent: tokens whose BF16 copies attention reads instead. hadamard: 16 rotates K.
        k_global_scale, v_global_scale: of nvfp4 and fp8. like: an array whose framework and
        device the cache takes; else numpy, or DeviceArray on device='cuda:N'.
        """

    @staticmethod
    def from_memory(memory: Array, *, format: str, kv_heads: int, head_dim: int, page_size: int, lengths: Array, page_table: Array | None = None, global_scales: Array | None = None, first_k: Array | None = None, first_v: Array | None = None, recent_k: Array | None = None, recent_v: Array | None = None, k_mean: Array | None = None, hadamard: int = 0) -> KvCache:
        """Of bytes that hold whole records, page by page and head by head."""

    @staticmethod
    def from_parts(k_codes: Array, k_scales: Array | None, v_codes: Array, v_scales: Array | None, *, format: str, lengths: Array, page_table: Array | None = None, global_scales: Array | None = None, first_k: Array | None = None, first_v: Array | None = None, recent_k: Array | None = None, recent_v: Array | None = None, k_mean: Array | None = None, hadamard: int = 0) -> KvCache:
        """
        Of views (page, token, head, byte) of tensors that exist, at any strides but of
        the last axis: vLLM's and FlashInfer's pages, transposed where they are (page,
        head, token, byte). Without a page table sequence s has page s.
        """

    def append(self, k: Array, v: Array, *, offsets: Array | None = None, rope: tuple[Array, Array] | None = None, rope_interleaved: bool = False, advance: bool = True, scale_rule: str | None = None, backend: str | None = None, threads: int | None = None, stream: Stream = None) -> None:
        """
        Quantizes new tokens into the cache: k, v (batch, tokens, kv_heads, head_dim), float32,
        bfloat16 or float16; with offsets (int32, batch + 1) all sequences' tokens in one row,
        (tokens, kv_heads, head_dim). rope: (cos, sin) of rope_tables, applied to k.
        First adds the new tokens to `lengths`, in place; with advance=False the caller has.
        """

    def repack_v_scales(self, from_layout: str, to_layout: str) -> None:
        """
        Rearranges V's scales of an NVFP4 cache on the CPU in place, 'linear' or 'trtllm'.
        """

    @property
    def format(self) -> str: ...

    @property
    def kv_heads(self) -> int: ...

    @property
    def head_dim(self) -> int: ...

    @property
    def page_size(self) -> int: ...

    @property
    def hadamard(self) -> int: ...

    @property
    def batch(self) -> int: ...

    @property
    def memory(self) -> Array | None:
        """The records' bytes; None of from_parts."""

    @property
    def lengths(self) -> Array:
        """int32 (batch,): tokens of each sequence."""

    @property
    def page_table(self) -> Array | None: ...

    @property
    def global_scales(self) -> Array | None:
        """float32 (2,): of K, of V."""

    @property
    def first_k(self) -> Array | None: ...

    @property
    def first_v(self) -> Array | None: ...

    @property
    def recent_k(self) -> Array | None: ...

    @property
    def recent_v(self) -> Array | None: ...

    def __reduce__(self) -> tuple[Any, ...]: ...

    def __repr__(self) -> str: ...

def kv_page_bytes(format: str, *, kv_heads: int, head_dim: int, page_size: int) -> int:
    """Bytes of one page of records, for KvCache.from_memory."""

def rope_tables(theta: float, positions: int, width: int, *, like: Array | None = None) -> tuple[Array, Array]:
    """
    (cos, sin) of position * theta ** (-2 i / width), float32 (positions, width / 2): for
    KvCache.append. like: an array whose framework and device they take; else numpy.
    """

def attention(q: Array | BlockTensor, k: Array | BlockTensor | None = None, v: Array | BlockTensor | None = None, *, cache: KvCache | None = None, scale: float | None = None, causal: bool = False, window: int = 0, softcap: float = 0.0, sinks: Array | None = None, q_offsets: Array | None = None, kv_offsets: Array | None = None, max_q_len: int = 0, max_kv_len: int = 0, accuracy: str = 'storage', probabilities: str = 'of_mode', format: str = 'nvfp4', v_along_tokens: bool = False, splits: int = 0, return_lse: bool = False, out: Array | None = None, out_dtype: DTypeLike = None, backend: str | None = None, threads: int | None = None, stream: Stream = None) -> Any:
    """
    softmax(scale * q @ k.T + mask) @ v.

    q: (batch, tokens, heads, d), d a multiple of 32 up to 256; k, v: (batch, tokens, kv_heads,
    d), arrays or BlockTensors; or cache=. scale: 1 / sqrt(d) if left out. causal: query i of q
    stands at position kv_len - q_len + i. window: keys a query sees, itself counted; 0 is all.
    softcap: c * tanh(s / c). sinks: float32 (heads,). q_offsets, kv_offsets: int32, sequences in
    one row, q (tokens, heads, d); max_q_len and max_kv_len bound their lengths for a GPU. Queries
    of no sequence are zeros in a new result.
    accuracy: 'storage' rounds no operand further, 'one_term' and 'two_term' compute in FP4.
    docs/attention.md has the formulas and bounds. With return_lse: (result, log of the sums,
    float32 (batch, tokens, heads)).
    """

class TensorPlan:
    """What becomes of one tensor of a model."""

    @property
    def name(self) -> str: ...

    @property
    def dtype(self) -> str:
        """As stored: 'BF16', ..."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def treatment(self) -> str:
        """
        'quantize', 'split' (stacked experts: each its own module), 'copy' or 'drop'.
        """

    @property
    def reason(self) -> str:
        """Why, in words."""

    @property
    def group(self) -> str:
        """Tensors of one name share an NVFP4 global scale; empty: none."""

    @property
    def file(self) -> str:
        """Of the output."""

    @property
    def format(self) -> str:
        """'nvfp4', ...; empty for what is not quantized."""

    @property
    def input_amax(self) -> float | None:
        """That the stored scale of its inputs is made of; None: there is none."""

    @property
    def bytes_before(self) -> int: ...

    @property
    def bytes_after(self) -> int: ...

    def __repr__(self) -> str: ...

    def __getstate__(self) -> tuple[Any, ...]: ...

    def __setstate__(self, state: tuple[Any, ...]) -> None: ...

class ConversionPlan:
    """What a conversion does, tensor by tensor."""

    @property
    def tensors(self) -> list[TensorPlan]:
        """In the order of the input."""

    @property
    def copied_files(self) -> list[str]:
        """Tokenizer and the like."""

    @property
    def left_out(self) -> dict[str, str]:
        """Files that stay behind, and why."""

    @property
    def notices(self) -> list[str]:
        """Oddities of the input, a sentence each."""

    @property
    def bytes_before(self) -> int:
        """Of all tensors."""

    @property
    def bytes_after(self) -> int: ...

    @property
    def disk_needed(self) -> int: ...

    @property
    def disk_free(self) -> int: ...

    @property
    def computed_on(self) -> str:
        """In words: 'the CPU'."""

    @property
    def choice(self) -> dict[str, Any] | None:
        """
        What a budget led to, as `quantize --json` has it: bits, error, groups, curve; else None.
        """

    def __repr__(self) -> str: ...

    def __getstate__(self) -> tuple[Any, ...]: ...

    def __setstate__(self, state: tuple[Any, ...]) -> None: ...

class DequantizedModel:
    """What a dense model was written without."""

    @property
    def left_out(self) -> dict[str, str]:
        """Files and tensors that stay behind, and why."""

    @property
    def notices(self) -> list[str]:
        """Oddities of the input, a sentence each."""

    def __repr__(self) -> str: ...

    def __getstate__(self) -> tuple[Any, ...]: ...

    def __setstate__(self, state: tuple[Any, ...]) -> None: ...

class ConvertedModel:
    """What convert_model put into another container."""

    @property
    def plan(self) -> ConversionPlan: ...

    @property
    def already_done(self) -> bool:
        """By an earlier run."""

    @property
    def weights(self) -> int:
        """Matrices that keep their codes."""

    @property
    def blocks(self) -> int:
        """As they are in the output."""

    @property
    def blocks_cast(self) -> int:
        """Of these, MXFP4 that became NVFP4."""

    @property
    def blocks_searched(self) -> int:
        """Of these, those that stand for other values than before."""

    @property
    def hash_before(self) -> int:
        """Of the values of the input's blocks."""

    @property
    def hash_after(self) -> int:
        """Of those of the output."""

    @property
    def same_values(self) -> bool: ...

    def __repr__(self) -> str: ...

    def __getstate__(self) -> tuple[Any, ...]: ...

    def __setstate__(self, state: tuple[Any, ...]) -> None: ...

class RepairReport:
    """What repair_model changed."""

    @property
    def changes(self) -> list[str]:
        """A sentence each; empty: nothing to repair."""

    @property
    def found(self) -> int:
        """Errors that verify_model's rules found."""

    @property
    def written(self) -> bool: ...

    @property
    def blocks(self) -> int:
        """Of layers that got another global scale."""

    @property
    def blocks_inexact(self) -> int:
        """Of these, those that stand for other values than before."""

    @property
    def scales_changed(self) -> int:
        """Block scales."""

    @property
    def codes_changed(self) -> int: ...

    @property
    def relative_change(self) -> float:
        """Squares of the changes, against those of the values."""

    def __repr__(self) -> str: ...

    def __getstate__(self) -> tuple[Any, ...]: ...

    def __setstate__(self, state: tuple[Any, ...]) -> None: ...

def plan_quantize_model(source: str | os.PathLike[str], target: str | os.PathLike[str], format: str | None = None, *, scale_rule: str | None = None, rounding: str | None = None, compat: str | None = None, nan: str | None = None, inf: str | None = None, zero_code: str | None = None, seed: int = 0, bits: float | None = None, fit: int | None = None, menu: Sequence[str] = (), include: Sequence[str] = (), ignore: Sequence[str] = (), importance: str | os.PathLike[str] | None = None, method: str = 'auto', shrink: float | None = None, damping: float = 0.01, experts: str | None = None, allow_incomplete: bool = False, activations: str = 'dense', input_scales: str | os.PathLike[str] | None = None, lora: Sequence[tuple[str | os.PathLike[str], float]] = (), use: Sequence[tuple[str, str]] = (), container: str | None = None, threads: int = 0, max_memory: int = 1073741824, gpus: Sequence[int] = (), resume: bool = False) -> ConversionPlan:
    """What quantize_model would do; reads headers only."""

def quantize_model(source: str | os.PathLike[str], target: str | os.PathLike[str], format: str | None = None, *, scale_rule: str | None = None, rounding: str | None = None, compat: str | None = None, nan: str | None = None, inf: str | None = None, zero_code: str | None = None, seed: int = 0, bits: float | None = None, fit: int | None = None, menu: Sequence[str] = (), include: Sequence[str] = (), ignore: Sequence[str] = (), importance: str | os.PathLike[str] | None = None, method: str = 'auto', shrink: float | None = None, damping: float = 0.01, experts: str | None = None, allow_incomplete: bool = False, activations: str = 'dense', input_scales: str | os.PathLike[str] | None = None, lora: Sequence[tuple[str | os.PathLike[str], float]] = (), use: Sequence[tuple[str, str]] = (), container: str | None = None, threads: int = 0, max_memory: int = 1073741824, gpus: Sequence[int] = (), resume: bool = False, progress: Progress = None) -> ConversionPlan:
    """
    Converts a Hugging Face model folder, or one .safetensors or GGUF file, to the folder `target`.

    format: nvfp4 (None), mxfp4, mxfp8 or fp8. bits: chooses each layer's instead, so that the
    error is least with so many bits a weight; fit: the same with so many bytes of all files;
    menu: out of which formats, bf16 for what stays (all that the container holds). include, ignore: globs of tensors, or 're:' and a regular
    expression. importance: statistics of the layers' inputs, as calibrate makes
    them. method: what is done with them: 'gptq', 'block-hessian', 'search'; 'auto' is gptq where
    they have Hessians. shrink, damping: as quantize_with_hessian. max_memory: bytes to
    take at most, beside what the process holds. experts: 'interleaved' or 'halves', the order of gate and up in stacked experts
    where neither config.json nor the tensors tell. allow_incomplete: takes a model that lacks
    layers, experts or partners of layers. activations: 'dynamic' tells engines to
    quantize the inputs of mxfp4 and mxfp8 layers too. input_scales: JSON or safetensors with
    the largest magnitude of each layer's input, for nvfp4. lora: pairs of a LoRA adapter
    that peft saved and a weight, added before quantizing. use: pairs of a pattern and a format
    (also fp8: a scale for each row) for layers that get another. container:
    'compressed-tensors', 'modelopt', 'gguf', 'comfyui' or 'gpt-oss'; None: by the target's name, gguf
    for .gguf and comfyui for .safetensors, each one file, else compressed-tensors. gpus: numbers of
    GPUs to quantize on, with the same bytes. resume: goes on where
    an earlier run was stopped. progress(bytes_done, bytes_total, item): False stops.
    Ctrl-C raises KeyboardInterrupt, and resume=True goes on later. Raises OSError, ValueError
    for what is no model, MemoryError.
    """

def convert_model(source: str | os.PathLike[str], target: str | os.PathLike[str], container: str, *, to_nvfp4: bool = False, exact: bool = False, threads: int = 0, max_memory: int = 1073741824, resume: bool = False, read_back: bool = False, progress: Progress = None) -> ConvertedModel:
    """
    Puts weights that are quantized already into another container with their codes.

    MXFP4 becomes NVFP4, by the same codes where scales reach, where the container has no
    MXFP4; to_nvfp4: also where it has. exact: refuses what would change a value. Hashes
    the values of what was written, of which it reads a sixteenth again, with read_back all.
    Raises ValueError, OSError, MemoryError.
    """

def dequantize_model(source: str | os.PathLike[str], target: str | os.PathLike[str], dtype: DTypeLike = 'bf16', *, threads: int = 0, allow_nan: bool = False, progress: Progress = None) -> DequantizedModel:
    """
    Expands a quantized folder to dense weights under the original names.

    Raises ValueError, and writes nothing, where a weight cannot be decoded, where scales are
    NaN (but for allow_nan), or where values would become infinite as f16.
    """

def repair_model(source: str | os.PathLike[str], target: str | os.PathLike[str] | None = None, *, threads: int = 0, progress: Progress = None) -> RepairReport:
    """
    Writes a quantized folder again as loaders want it: one global scale for fused layers, the
    ignore list in engines' spellings, without what a calibration left. No target: only says
    what would change. Raises ValueError for an error that this does not mend.
    """

def verify_model(path: str | os.PathLike[str], *, threads: int = 0) -> list[str]:
    """
    Checks everything that a loader relies on: a sentence for each problem, none if all is well.
    """

def inspect_model(path: str | os.PathLike[str], tensor: str | None = None) -> dict[str, Any]:
    """
    What is in a model folder or file: 'tensors' (name, format, shape, bytes, ...), 'notes'
    and totals, as `microscale inspect --json` prints them. tensor: one in detail, with
    the range of its values and how often each code occurs.
    """

def compare_models(original: str | os.PathLike[str], other: str | os.PathLike[str], *, threads: int = 0, progress: Progress = None) -> dict[str, Any]:
    """
    What quantizing cost: 'relative_mse', 'sqnr_db', 'cosine', ... of the whole and, in
    'tensors', of each tensor that both have; names that only one has; 'swapped' where
    only the first is quantized and the second was taken for the original.
    """

class CheckpointFile:
    """Behind microscale.open_checkpoint."""

    def __init__(self, path: str | os.PathLike[str]) -> None: ...

    def names(self) -> list[str]: ...

    def find(self, name: str) -> Any: ...

class PtxModule:
    """Behind microscale.emulator.launch."""

    def __init__(self, text: str, target: str) -> None: ...

    def kernels(self) -> list[str]: ...

    def kernel(self, word: str) -> str: ...

    def parameters(self, kernel: str) -> list[dict[str, Any]]: ...

    def grid_barrier(self, kernel: str) -> bool: ...

    def allocate(self, bytes: int, name: str) -> int: ...

    def write(self, address: int, source: Array) -> None: ...

    def read(self, address: int, into: Array) -> None: ...

    def unwritten(self, address: int, size: int, mask: Array) -> None: ...

    def write_variable(self, name: str, source: Array) -> None: ...

    def read_variable(self, name: str, into: Array) -> None: ...

    def launch(self, kernel: str, grid: tuple[int, int, int], block: tuple[int, int, int], cluster: tuple[int, int, int], shared: int, arguments: bytes, schedule: str, completion: str, seed: int, budget: int, threads: int, races: bool, equal_stores_race: bool, count: bool) -> dict[str, Any]: ...

def ptx_text(path: str | os.PathLike[str], target: str) -> str:
    """The text of a PTX file, or what nvcc makes of a .cu file for `target`."""

def ptx_readable_name(name: str) -> str: ...

def ptx_parameter_names(source: str, kernel: str) -> list[str]: ...

def ptx_tensor_map(address: int, element_bytes: int, size: Sequence[int], stride: Sequence[int], box: Sequence[int], swizzle: int) -> bytes: ...

__version__: str
