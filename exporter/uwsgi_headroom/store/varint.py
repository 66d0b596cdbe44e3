"""Whole numbers as bytes: zigzag, then seven bits to a byte, least first, as in Protocol Buffers."""

from __future__ import annotations

from collections.abc import Iterable


def encode_numbers(numbers: Iterable[int]) -> bytes:
    """The numbers, of any size and sign, as bytes."""
    data = bytearray()
    put = data.append
    for number in numbers:
        rest = number << 1 if number >= 0 else (-number << 1) - 1
        while rest > 127:
            put(rest & 127 | 128)
            rest >>= 7
        put(rest)
    return bytes(data)


def decode_numbers(data: bytes) -> list[int]:
    """The numbers of these bytes. Raises ValueError if the last number is not complete."""
    numbers: list[int] = []
    put = numbers.append
    number = shift = 0
    for byte in data:
        if byte > 127:
            number |= (byte & 127) << shift
            shift += 7
        else:
            number |= byte << shift
            put(number >> 1 if not number & 1 else -((number + 1) >> 1))
            number = shift = 0
    if shift:
        raise ValueError("the last number is not complete")
    return numbers
