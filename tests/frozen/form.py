"""Encodes the input of the judge as JSON by the names of its fields, and decodes it by the types that it has today.

A field with its default value is left out. A field that no longer exists is ignored; one that is missing has its
default, or is empty.
"""

import dataclasses
import math
import types
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from uwsgi_headroom.history.response_times.bins import Bins, share_bins

DIGITS = 6
"""Significant digits of a number below SHORT, to 7 places at most; above, thousandths are kept, as of a time."""

SHORT = 10_000.0

LONG = 20
"""From this length on, a list that is mostly zeros is written without them."""


def encode(value: Any) -> Any:  # noqa: PLR0911 - one for each kind
    """What `json.dumps` takes."""
    if isinstance(value, bool) or value is None or isinstance(value, (int, str)):
        return value
    if isinstance(value, float):
        return _shorten(value) if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: encode(each) for key, each in value.items()}
        return [[encode(key), encode(each)] for key, each in value.items()]
    if (fields := list_fields(type(value))) is not None:
        every = ((name, getattr(value, name), absent) for name, absent in fields.items())
        return {name: encode(each) for name, each, absent in every if not _is_same(each, absent())}
    if isinstance(value, Bins):
        return None
    assert isinstance(value, (Sequence, AbstractSet)), f"no form for {type(value).__name__}"
    items = [encode(each) for each in value]
    return items if len(items) < LONG or items.count(0) < len(items) / 2 else _leave_zeros_out(items)


def _leave_zeros_out(items: list[Any]) -> dict[str, Any]:
    return {"length": len(items), **{str(place): each for place, each in enumerate(items) if each != 0}}


def decode(kind: Any, value: Any) -> Any:  # noqa: PLR0911 - one for each kind
    """The value of this type, from its JSON."""
    if kind is Bins:
        return share_bins()
    if value is None:
        return None
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        kinds = [each for each in arguments if each is not type(None)]
        return decode(kinds[0], value) if len(kinds) == 1 else value
    if kind is float:
        return float(value)
    if isinstance(kind, type) and (fields := list_fields(kind)) is not None:
        hints = type_hints(kind)
        return kind(**{n: decode(hints[n], value[n]) if n in value else absent() for n, absent in fields.items()})
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key, each = arguments
        pairs = value.items() if isinstance(value, dict) else value
        return {decode(key, name): decode(each, one) for name, one in pairs}
    if origin is tuple and arguments[-1] is not ...:
        return tuple(decode(each, one) for each, one in zip(arguments, value, strict=True))
    if isinstance(origin, type) and issubclass(origin, Sequence):
        if isinstance(value, dict):
            value = [value.get(str(place), 0) for place in range(value["length"])]
        return (list if origin is list else tuple)(decode(arguments[0], one) for one in value)
    return value


type_hints = cache(get_type_hints)


@cache
def list_fields(kind: type) -> Mapping[str, Callable[[], Any]] | None:
    """The fields of a record, and how to make the value of one that is absent; None for any other type."""
    if dataclasses.is_dataclass(kind):
        found = [(each.name, each.default, each.default_factory) for each in dataclasses.fields(kind)]
    elif issubclass(kind, msgspec.Struct):
        found = [(each.name, each.default, each.default_factory) for each in msgspec.structs.fields(kind)]
    elif issubclass(kind, tuple) and hasattr(kind, "_fields"):
        defaults = kind._field_defaults
        found = [(name, defaults.get(name, dataclasses.MISSING), dataclasses.MISSING) for name in kind._fields]
    else:
        return None
    return {name: _absent(kind, name, default, factory) for name, default, factory in found}


_NONE = (dataclasses.MISSING, msgspec.NODEFAULT)


def _absent(kind: type, name: str, default: Any, factory: Any) -> Callable[[], Any]:
    if default not in _NONE:
        return lambda: default
    return factory if factory not in _NONE else lambda: _empty(type_hints(kind)[name])


def _empty(kind: Any) -> Any:
    """What an absent field without a default is: None if it may be, else nothing of its type."""
    origin = get_origin(kind) or kind
    if type(None) in get_args(kind) or origin is Literal:
        return None
    if (fields := list_fields(origin)) is not None:
        return origin(**{name: absent() for name, absent in fields.items()})
    return () if origin in (tuple, Sequence) else {} if origin in (dict, Mapping) else origin()


def _is_same(value: Any, absent: Any) -> bool:
    return type(value) is type(absent) and value == absent


def _shorten(value: float) -> float | int:
    short = round(float(f"{value:.{DIGITS}g}"), 7) if abs(value) < SHORT else round(value, 3)
    return int(short) if short.is_integer() else short
