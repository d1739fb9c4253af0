"""What a handler's payload annotation means: its JSON Schema, and the way from JSON to the object the handler gets.

Structs, dataclasses, typed dicts and plain JSON types go through msgspec; pydantic models speak for themselves and are
never imported here. Unknown keys are refused at every depth with the known names. Must not know of tasks or workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import inspect as shapes

from ..errors import InvalidPayload
from ..rules import fitting

NOTHING = None
"""Payload type of a handler that takes the context alone: only `{}` or `null` fits."""

_Keyed = (shapes.StructType, shapes.DataclassType, shapes.TypedDictType)


def refusal(kind: Any) -> str:
    """Why this annotation can't be a payload type; empty = it can."""
    if kind is NOTHING or _is_pydantic(kind):
        return ""
    try:
        shape = _shape(kind)
    except TypeError as error:
        return str(error)
    if isinstance(shape, shapes.CustomType):
        return f"{kind!r} is not JSON: use a msgspec.Struct, a dataclass, a pydantic model or dict"
    return ""


def schema(kind: Any) -> str:
    """The payload's JSON Schema as JSON text, or empty where there is nothing to say."""
    if kind is NOTHING or kind in (Any, dict):
        return ""
    try:
        found = kind.model_json_schema() if _is_pydantic(kind) else msgspec.json.schema(kind)
        return msgspec.json.encode(found).decode()
    except (TypeError, ValueError):  # a type that has no JSON form in one corner; it still converts
        return ""


def shape(kind: Any) -> str:
    """What a payload type means as a `rules.fitting` shape (JSON text); empty where it means more than that."""
    if kind is NOTHING:
        return msgspec.json.encode(["or", "null", ["object", {}, []]]).decode()
    if _is_pydantic(kind):
        return ""
    try:
        return msgspec.json.encode(_plain(_shape(kind), fitting.DEEPEST)).decode()
    except _More:
        return ""


class _More(Exception):
    """The type says more than a shape can."""


_PLAIN = {
    shapes.AnyType: "any",
    shapes.NoneType: "null",
    shapes.BoolType: "bool",
    shapes.IntType: "int",
    shapes.FloatType: "float",
    shapes.StrType: "str",
}


def _plain(found: shapes.Type, depth: int) -> Any:
    if not depth or _is_bounded(found):
        raise _More
    if type(found) in _PLAIN:
        return _PLAIN[type(found)]
    if isinstance(found, shapes.ListType):
        return ["list", _plain(found.item_type, depth - 1)]
    if isinstance(found, shapes.DictType) and type(found.key_type) in (shapes.StrType, shapes.AnyType):
        _plain(found.key_type, depth - 1)
        return ["map", _plain(found.value_type, depth - 1)]
    if isinstance(found, shapes.UnionType):
        if sum(isinstance(each, (*_Keyed, shapes.DictType, shapes.AnyType)) for each in found.types) > 1:
            raise _More
        return ["or", *(_plain(each, depth - 1) for each in found.types)]
    if isinstance(found, _Keyed) and _is_as_declared(found):
        required = [field.encode_name for field in found.fields if field.required]
        return [
            "object",
            {field.encode_name: _plain(field.type, depth - 1) for field in found.fields},
            required,
        ]
    raise _More


def _is_bounded(found: shapes.Type) -> bool:
    """Has it limits of its own: a smallest value, a pattern, a longest length …?"""
    limits = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern")
    return any(getattr(found, name, None) is not None for name in limits)


def _is_as_declared(found: Any) -> bool:
    """Is an object of it no more than its fields? No tag, no array in its place, nothing that looks at it once it is made."""
    if getattr(found, "tag_field", None) is not None or getattr(found, "array_like", False):
        return False
    return not hasattr(found.cls, "__post_init__")


def convert(kind: Any, value: Any) -> Any:
    """The decoded JSON `value` as the annotated type. Raises `InvalidPayload` that names the place."""
    if kind is NOTHING:
        if value not in ({}, None):
            raise InvalidPayload("the payload does not fit", "this type takes no parameters", "submit {}")
        return None
    if _is_pydantic(kind):
        return _convert_pydantic(kind, value)
    if isinstance(value, (dict, list)) and not _is_flat_and_known(kind, value):
        for problem in _unknown(_shape(kind), value, "$"):
            raise InvalidPayload("the payload does not fit", problem)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InvalidPayload("the payload does not fit", _clip(str(error))) from None


@lru_cache(maxsize=512)
def _shape(kind: Any) -> shapes.Type:
    return shapes.type_info(kind)


def _is_flat_and_known(kind: Any, value: dict[str, Any] | list[Any]) -> bool:
    """Has every key a field, and may nothing below have keys? So it mostly is, and is quickly told."""
    names = _flat_names(kind)
    return names is not None and isinstance(value, dict) and names.issuperset(value)


@lru_cache(maxsize=512)
def _flat_names(kind: Any) -> frozenset[str] | None:
    """The keys of a type all of whose values are plain; None = it is another one."""
    shape = _shape(kind)
    if not isinstance(shape, _Keyed):
        return None
    if any(type(each) not in _PLAIN for field in shape.fields for each in _members(field.type)):
        return None
    return frozenset(field.encode_name for field in shape.fields)


def _unknown(shape: shapes.Type, value: Any, path: str) -> Iterator[str]:
    """Sentences about keys that no field has, outermost first."""
    if isinstance(value, dict):
        yield from _unknown_in_object(shape, value, path)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            item_shape = _item_shape(shape, index)
            if item_shape is None:
                return
            yield from _unknown(item_shape, item, f"{path}[{index}]")


def _unknown_in_object(shape: shapes.Type, value: dict[str, Any], path: str) -> Iterator[str]:
    keyed = _keyed(shape, value)
    if keyed is None:
        mapping = _only(shape, shapes.DictType)
        if mapping is not None and not isinstance(mapping.value_type, shapes.AnyType):
            for key, item in value.items():
                yield from _unknown(mapping.value_type, item, f"{path}.{key}")
        return
    fields = {field.encode_name: field.type for field in keyed.fields}
    tag = getattr(keyed, "tag_field", None)
    for key, item in value.items():
        if key in fields:
            yield from _unknown(fields[key], item, f"{path}.{key}")
        elif key != tag:
            yield f'unknown key "{_clip(key, 80)}" at {path}; known: {", ".join(fields) or "none"}'


def _keyed(shape: shapes.Type, value: dict[str, Any]) -> Any:
    """The one struct, dataclass or typed dict that `value` must be, or None where that is open."""
    members = _members(shape)
    if any(isinstance(member, (shapes.DictType, shapes.AnyType)) for member in members):
        return None
    keyed = [member for member in members if isinstance(member, _Keyed)]
    if len(keyed) > 1:
        keyed = [member for member in keyed if _has_tag(member, value)]
    return keyed[0] if len(keyed) == 1 else None


def _has_tag(member: Any, value: dict[str, Any]) -> bool:
    field = getattr(member, "tag_field", None)
    return field is not None and value.get(field) == member.tag


def _item_shape(shape: shapes.Type, index: int) -> shapes.Type | None:
    for member in _members(shape):
        if isinstance(member, shapes.TupleType) and index < len(member.item_types):
            return member.item_types[index]
        if isinstance(member, (shapes.ListType, shapes.VarTupleType, shapes.SetType, shapes.FrozenSetType)):
            return member.item_type
    return None


def _only(shape: shapes.Type, kind: type) -> Any:
    found = [member for member in _members(shape) if isinstance(member, kind)]
    return found[0] if len(found) == 1 else None


def _members(shape: shapes.Type) -> tuple[shapes.Type, ...]:
    if isinstance(shape, shapes.Metadata):
        return _members(shape.type)
    return shape.types if isinstance(shape, shapes.UnionType) else (shape,)


@lru_cache(maxsize=512)
def _is_pydantic(kind: Any) -> bool:
    return isinstance(kind, type) and hasattr(kind, "model_validate") and hasattr(kind, "model_fields")


def _convert_pydantic(kind: Any, value: Any) -> Any:
    names = _pydantic_names(kind)
    if isinstance(value, dict) and names is not None:
        for key in value:
            if key not in names:
                known = ", ".join(sorted(names)) or "none"
                raise InvalidPayload(
                    "the payload does not fit", f'unknown key "{_clip(key, 80)}"; known: {known}'
                )
    try:
        return kind.model_validate(value)
    except (
        ValueError
    ) as error:  # pydantic's ValidationError; its text repeats the values, so only place and rule are told
        raise InvalidPayload("the payload does not fit", _clip(_pydantic_story(error))) from None


def _pydantic_names(kind: Any) -> set[str] | None:
    """Names that the model takes; None where it takes any or says so in a way that only pydantic can read."""
    if kind.model_config.get("extra") == "allow":
        return None
    names: set[str] = set()
    for name, field in kind.model_fields.items():
        for alias in (name, field.alias, field.validation_alias):
            if alias is not None and not isinstance(alias, str):
                return None
            names.update([alias] if alias else [])
    return names


def _pydantic_story(error: Any) -> str:
    if not hasattr(error, "errors"):
        return type(error).__name__
    places = (
        (".".join(["$", *map(str, one["loc"])]), one["msg"]) for one in error.errors(include_input=False)
    )
    return "; ".join(f"{rule} at {place}" for place, rule in places)


def _clip(text: str, limit: int = 300) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
