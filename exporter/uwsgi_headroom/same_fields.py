"""Makes a record from another one that has fields of the same names, as a document is made from figures."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


def copy_fields(kind: type[T], source: object, **others: Any) -> T:
    """A record of `kind`, a dataclass or a Struct: its fields are the attributes of `source` with their names, but for
    `others`. Raises AttributeError if the source lacks one."""
    names = getattr(kind, "__struct_fields__", None) or kind.__dataclass_fields__  # type: ignore[attr-defined]
    return kind(**{name: getattr(source, name) for name in names if name not in others}, **others)
