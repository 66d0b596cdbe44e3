"""Makes a record from others that have fields of the same names, as a document is made from figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

R = TypeVar("R")
T = TypeVar("T")


def copy_fields(kind: type[T], *sources: object, **others: Any) -> T:
    """A record of `kind`, a dataclass or a Struct. Its fields are `others`, and the attributes of the sources with
    their names, of the first source that has it. A source may be None. What none has keeps its default; raises
    TypeError if it has no default."""
    names = getattr(kind, "__struct_fields__", None) or kind.__dataclass_fields__  # type: ignore[attr-defined]
    for name in names:
        source = name not in others and next((each for each in sources if hasattr(each, name)), None)
        if source:
            others[name] = getattr(source, name)
    return kind(**others)


def given(value: T | None, build: Callable[[T], R]) -> R | None:
    """What is built of a value; None if there is no value."""
    return None if value is None else build(value)
