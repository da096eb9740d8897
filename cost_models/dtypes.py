"""Bytes of an element, and of the scales that a quantised array carries."""

_BITS = {"float32": 32, "bf16": 16, "int8": 8, "fp8": 8, "int4": 4, "fp4": 4}

SCALED = frozenset({"int8", "fp8", "int4", "fp4"})
"""Dtypes whose arrays carry scales."""

SCALE_BYTES = 4
"""Bytes of one scale, a float32."""


def dtypes() -> tuple[str, ...]:
    """Every dtype with a known size, widest first."""
    return tuple(_BITS)


def bytes_per_element(dtype: str) -> float:
    """Bytes of one element; half a byte for the 4-bit dtypes."""
    try:
        return _BITS[dtype] / 8
    except KeyError:
        raise LookupError(f'unknown dtype "{dtype}"; known are {", ".join(_BITS)}') from None


def array_bytes(elements: int, dtype: str) -> int:
    """Bytes of `elements` packed elements, rounded up to whole bytes; scales not included."""
    bits = round(bytes_per_element(dtype) * 8)
    return -(-elements * bits // 8)


def scale_bytes(channels: int, dtype: str) -> int:
    """Bytes of one float32 scale per output channel; none for a floating-point array."""
    return SCALE_BYTES * channels if dtype in SCALED else 0
