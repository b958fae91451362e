"""Input blocks of the golden vectors: 32 values each, chosen where tools are known to differ.

Every listed largest magnitude appears with two fillings: midpoints of E2M1 and E4M3 with their neighbours,
and random fractions with zeros of both signs. A few FP16 blocks are there for tools that compute in the
input's type. NVFP4 reads a case as two blocks of 16.
"""

import numpy as np

F32 = np.float32
SEED = 20260


def f32_bits(values):
    return np.asarray(values, dtype=F32).view(np.uint32)


def from_bits(bits):
    return np.asarray(bits, dtype=np.uint32).view(F32)


def to_bf16(values):
    """FP32 rounded to nearest even BF16, as FP32 values; NaN stays NaN."""
    bits = f32_bits(values).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) << 16
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return from_bits(np.where(nan, bits | 0x400000, rounded).astype(np.uint32) & np.uint32(0xFFFF0000))


def to_f16(values):
    return np.asarray(values, dtype=np.float16).astype(F32)


def step(value, ulps, dtype):
    """The neighbour of a positive value, `ulps` steps of its type away."""
    unit = 0x10000 if dtype == "bf16" else 1
    return from_bits(np.uint32(int(f32_bits(value)) + ulps * unit))


def largest_magnitudes(dtype):
    plain = [2.0**-149, 2.0**-140, 2.0**-130, 2.0**-127, 2.0**-126, 6 * 2.0**-126, 448 * 2.0**-126,
             2.0**-124, 6 * 2.0**-10, 6 * 2.0**-9, 1.5, 1.75, 2.0, 5.0, 6.0, 7.0, 7.5, 8.0, 240.0, 255.0,
             256.0, 300.0, 448.0, 480.0, 496.0, 511.0, 57344.0, 61440.0, 6 * 2.0**60, 2.0**100, 2.0**127,
             1.5 * 2.0**127, 1.75 * 2.0**127]
    values = [to_bf16(v) if dtype == "bf16" else F32(v) for v in plain]
    for base in (1.75, 6.0, 7.0, 448.0, 2.0**100, 6 * 2.0**-100):
        values += [step(F32(base), 1, dtype), step(F32(base), -1, dtype)]
    values.append(step(F32(np.inf), -1, dtype))
    return [v for v in values if v != 0]


def near_powers():
    """FP32 magnitudes whose FP32 log2, or that of a quotient by 6 or 448, may round to an integer."""
    values = []
    for k in (-120, 30, 100):
        values += [step(F32(2.0**k), n, "f32") for n in (-40, -20, 10, 20, 24)]
        values += [step(F32(limit * 2.0**k), n, "f32") for limit in (6, 448) for n in (9, 30)]
    return values


def tie_filling(amax, dtype, rng):
    """amax, then midpoints at the two scales a rule may choose, and their neighbours, signs alternating."""
    exponent = int(np.floor(np.log2(float(amax))))
    e2m1 = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0]
    e4m3 = [17 / 16, 1.5 + 1 / 16, 15.5, 2.0**-10, 3 * 2.0**-10, 29 / 16 * 64, 432.0]
    block = [float(amax)]
    for i in range(31):
        table, shift = (e2m1, 2) if i < 21 else (e4m3, 8)
        value = table[i % len(table)] * 2.0**(exponent - shift + int(rng.integers(0, 2)))
        with np.errstate(over="ignore"):
            value = F32(min(value, float(amax)))
        if dtype == "bf16":
            value = to_bf16(value)
        nudge = i // len(table) % 3 - 1 if i < 21 else i % 3 - 1
        if nudge and 0 < value < amax:
            value = step(value, nudge, dtype)
        block.append(-float(value) if i % 2 else float(value))
    return block


def random_filling(amax, dtype, rng):
    values = rng.uniform(-1, 1, 32) * float(amax)
    values[rng.integers(0, 32, 5)] *= 2.0**-6
    values[rng.integers(0, 32, 3)] = 0.0
    values[rng.integers(0, 32, 3)] = -0.0
    values[rng.integers(0, 32)] = float(amax) * rng.choice([-1, 1])
    return values


def special_blocks(rng):
    normal = rng.normal(size=32)
    nan, inf = float("nan"), float("inf")

    def with_values(*pairs):
        block = normal.copy()
        for at, value in pairs:
            block[at] = value
        return block

    tiny = np.where(np.arange(32) % 2, -(2.0**-133), 2.0**-126) * (1 + np.arange(32) % 3)
    return [("zeros", np.zeros(32)), ("minus_zeros", np.full(32, -0.0)),
            ("mixed_zeros", np.where(np.arange(32) % 3, 0.0, -0.0)),
            ("half_zero", np.where(np.arange(32) < 16, normal, 0.0)), ("subnormal", tiny),
            ("one_nan", with_values((5, nan))), ("negative_nan", with_values((20, -nan))),
            ("all_nan", np.full(32, nan)), ("one_inf", with_values((7, inf))),
            ("minus_inf", with_values((30, -inf))), ("nan_inf", with_values((1, nan), (2, inf), (17, -inf))),
            ("all_inf", np.full(32, inf)), ("spread", np.ldexp(normal, np.arange(32) * 8 - 128))]


def cases():
    """[(name, dtype, 32 FP32 values)]; the names of random blocks start with `random`."""
    rng = np.random.default_rng(SEED)
    out = []
    for dtype in ("bf16", "f32"):
        cast = to_bf16 if dtype == "bf16" else (lambda v: np.asarray(v, dtype=F32))
        with np.errstate(over="ignore", invalid="ignore"):
            for amax in largest_magnitudes(dtype):
                label = f"{int(f32_bits(amax)):08x}"
                out.append((f"ties_{label}", dtype, cast(tie_filling(amax, dtype, rng))))
                out.append((f"fill_{label}", dtype, cast(random_filling(amax, dtype, rng))))
            for amax in near_powers() if dtype == "f32" else []:
                out.append((f"near_{int(f32_bits(amax)):08x}", dtype, cast(tie_filling(amax, dtype, rng))))
            for name, values in special_blocks(rng):
                out.append((name, dtype, cast(values)))
            for i in range(8):
                gaussian = rng.normal(size=32) * 2.0**rng.integers(-12, 4)
                log_uniform = rng.choice([-1, 1], 32) * 2.0**rng.uniform(-20, 20, 32)
                raw = rng.integers(0, 2**32, 32, dtype=np.uint32)
                raw = np.where((raw & 0x7F800000) == 0x7F800000, raw & 0xBFFFFFFF, raw).astype(np.uint32)
                out.append((f"random_gauss{i}", dtype, cast(gaussian)))
                out.append((f"random_log{i}", dtype, cast(log_uniform)))
                out.append((f"random_bits{i}", dtype, cast(from_bits(raw))))
    for i in range(10):  # FP16 checkpoints: compressed-tensors computes in the type of the weight
        out.append((f"random_half{i}", "f16", to_f16(rng.normal(size=32) * 2.0**rng.integers(-7, 3))))
    return out


def global_magnitudes(count):
    """The tensor magnitude each case is given besides its own: block scales under- and overflow too."""
    rng = np.random.default_rng(SEED + 1)
    fixed = [2688.0, 1.0, 3.5, 0.009, 1e5, 448.0, 2.0**-100, 2.0**100]
    return [F32(fixed[i % 8] if i % 16 < 8 else 2.0**rng.uniform(-8, 12)) for i in range(count)]
