#!/usr/bin/env python3
"""Block-scaled matrix arithmetic, slowly and in fractions: the published formulas written a second time.

usage: scripts/golden/tensor.py > tests/golden/tensor_model.txt     the same bytes every time, no packages

Lines (all numbers hexadecimal; elements in order of K, codes without padding):
  fp4 <scale type> <scales> <64 a> <64 b> <scales of a> <scales of b> <c> <d>
  mx8 <type of a> <type of b> <32 a> <32 b> <scale of a> <scale of b> <c> <d>
c and d are FP32 bits. tests/emulator/tensor/mma_golden_test.cpp replays them.
"""
import random
from fractions import Fraction

FORMATS = {  # exponent bits, fraction bits, specials: 2 as IEEE, 1 only all ones is NaN, 0 none
    "e2m1": (2, 1, 0), "e2m3": (2, 3, 0), "e3m2": (3, 2, 0), "e4m3": (4, 3, 1), "e5m2": (5, 2, 2),
    "f32": (8, 23, 2),
}
NAN = 0x7FFFFFFF


def decode(name, code):
    """(value, exponent), or a float nan or inf. A zero has no exponent: None."""
    exponent_bits, fraction_bits, specials = FORMATS[name]
    bias = 2 ** (exponent_bits - 1) - 1
    fraction = code % 2 ** fraction_bits
    field = code // 2 ** fraction_bits % 2 ** exponent_bits
    sign = -1 if code >> (exponent_bits + fraction_bits) else 1
    if specials == 2 and field == 2 ** exponent_bits - 1:
        return (float("nan") if fraction else sign * float("inf")), None
    if specials == 1 and field == 2 ** exponent_bits - 1 and fraction == 2 ** fraction_bits - 1:
        return float("nan"), None
    exponent = max(field, 1) - bias
    value = sign * Fraction(fraction + (2 ** fraction_bits if field else 0), 2 ** fraction_bits) * Fraction(2) ** exponent
    return value, (exponent if value else None)


def scale(kind, code):
    """(significand, exponent); None: NaN."""
    if kind == "ue8m0":
        return None if code == 255 else (Fraction(1), code - 127)
    value, exponent = decode("e4m3", code & 0x7F)
    if isinstance(value, float):
        return None
    return (value / Fraction(2) ** exponent, exponent) if value else (Fraction(0), -126)


def truncate(value, unit_exponent):
    """Toward zero to a multiple of 2^unit_exponent."""
    unit = Fraction(2) ** unit_exponent
    count = abs(value) // unit
    return count * unit * (1 if value > 0 else -1)


def fuse(bits, terms):
    """terms: (value, exponent)."""
    largest = max([e for _, e in terms if e is not None] + [-133])  # the floor is measured, on an H200
    return sum((truncate(v, largest - bits) for v, _ in terms), Fraction(0))


def to_f32(value):
    """Toward zero; too large: infinity."""
    if value == 0:
        return 0
    sign, magnitude = (0x80000000 if value < 0 else 0), abs(value)
    exponent = -126
    while magnitude >= Fraction(2) ** (exponent + 1):
        exponent += 1
    if exponent > 127:
        return sign | 0x7F800000
    count = int(magnitude // Fraction(2) ** (exponent - 23))
    if count == 0:
        return 0
    return sign | (((exponent + 126) << 23) + count)


def is_nan(value):
    return isinstance(value, float) and value != value


def is_infinite(value):
    return isinstance(value, float) and value == value


def fp4(kind, a, b, scales_a, scales_b, c):
    start, start_exponent = decode("f32", c)
    terms = [(start, start_exponent)]
    bad = is_nan(start)
    for group in range(4):
        sa = scale(kind, scales_a[group * len(scales_a) // 4])
        sb = scale(kind, scales_b[group * len(scales_b) // 4])
        if sa is None or sb is None:
            bad = True
            continue
        total = sum(decode("e2m1", a[k])[0] * decode("e2m1", b[k])[0] for k in range(16 * group, 16 * group + 16))
        exponent = sa[1] + sb[1]
        terms.append((total * sa[0] * sb[0] * Fraction(2) ** exponent, exponent))
    if bad:
        return NAN
    return c if is_infinite(start) else to_f32(fuse(35, terms))


def mx8(type_a, type_b, a, b, scale_a, scale_b, c):
    start, start_exponent = decode("f32", c)
    sa, sb = scale("ue8m0", scale_a), scale("ue8m0", scale_b)
    if sa is None or sb is None or is_nan(start):
        return NAN
    terms, infinities = [(start, start_exponent)], {start} if is_infinite(start) else set()
    shift = sa[1] + sb[1]
    for x, y in zip(a, b):
        (vx, ex), (vy, ey) = decode(type_a, x), decode(type_b, y)
        if is_nan(vx) or is_nan(vy):
            return NAN
        if is_infinite(vx) or is_infinite(vy):
            if vx == 0 or vy == 0:
                return NAN
            infinities.add(float("inf") if (vx < 0) == (vy < 0) else -float("inf"))
        elif vx != 0 and vy != 0:
            terms.append((vx * vy * Fraction(2) ** shift, ex + ey + shift))
    if infinities:
        return NAN if len(infinities) == 2 else (0x7F800000 if infinities.pop() > 0 else 0xFF800000)
    return to_f32(fuse(25, terms))


def draw_c(rng, near):
    choice = rng.randrange(8)
    if choice == 0:
        return rng.choice([0, 0x80000000, 1, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000])
    exponent = min(254, max(0, 127 + near + rng.randrange(-40, 12)))
    return rng.randrange(2) << 31 | exponent << 23 | rng.randrange(1 << 23)


def draw_element(rng, name, spread):
    exponent_bits, fraction_bits, specials = FORMATS[name]
    code = rng.randrange(1 << (1 + exponent_bits + fraction_bits))
    if spread == 0 and rng.randrange(2):
        return 0
    value, _ = decode(name, code)
    return 1 if isinstance(value, float) and rng.randrange(64) else code


def text(codes, digits):
    return "".join(f"{code:0{digits}x}" for code in codes)


def main():
    rng = random.Random(20260101)
    print("# Made by scripts/golden/tensor.py")
    for kind, scales in (("ue8m0", 2), ("ue4m3", 4)):
        for case in range(120):
            a = [rng.randrange(16) for _ in range(64)]
            b = [rng.randrange(16) for _ in range(64)]
            if case % 3 == 0:  # sums near zero: the second half of each group undoes the first
                for k in range(0, 64, 2):
                    a[k + 1], b[k + 1] = a[k], b[k] ^ 8
                b[rng.randrange(64)] ^= 1
            near = rng.randrange(-60, 60) if kind == "ue8m0" else 0

            def draw_scale():
                if rng.randrange(100) == 0:
                    return 0xFF if kind == "ue8m0" else 0x7F
                if kind == "ue4m3":
                    return rng.choice([rng.randrange(127), rng.randrange(8), 0x38])
                return min(254, max(0, 127 + near // 2 + rng.randrange(-12, 12))) if rng.randrange(20) else rng.randrange(256)

            sa, sb = [draw_scale() for _ in range(scales)], [draw_scale() for _ in range(scales)]
            c = draw_c(rng, near)
            print("fp4", kind, scales, text(a, 1), text(b, 1), text(sa, 2), text(sb, 2), f"{c:08x}",
                  f"{fp4(kind, a, b, sa, sb, c):08x}")
    names = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
    for type_a in names:
        for type_b in names:
            for case in range(8):
                a = [draw_element(rng, type_a, case % 3) for _ in range(32)]
                b = [draw_element(rng, type_b, case % 3) for _ in range(32)]
                near = rng.randrange(-80, 60)
                sa, sb = [min(254, max(0, 127 + near // 2 + rng.randrange(-6, 6))) for _ in range(2)]
                if case == 7 and rng.randrange(4) == 0:
                    sa = 255
                c = draw_c(rng, near)
                print("mx8", type_a, type_b, text(a, 2), text(b, 2), f"{sa:02x}", f"{sb:02x}", f"{c:08x}",
                      f"{mx8(type_a, type_b, a, b, sa, sb, c):08x}")


if __name__ == "__main__":
    main()
