"""Tana's Local API as typed in contract.json: match a request to its operation and validate it."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from jsonschema import Draft202012Validator


class RefusedError(Exception):
    """A request that is answered with a status other than 200."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@cache
def _contract() -> list[tuple[str, re.Pattern[str], str, dict[str, Any]]]:
    document = json.loads(Path(__file__).with_name("contract.json").read_text(encoding="utf-8"))
    return [
        (method.upper(), re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path)), spec["operationId"], spec)
        for path, methods in document["paths"].items()
        for method, spec in methods.items()
    ]


def route(method: str, path: str) -> tuple[str, dict[str, str], dict[str, Any]]:
    for known, pattern, operation, spec in _contract():
        if known == method and (found := pattern.fullmatch(path)):
            return operation, {name: unquote(value) for name, value in found.groupdict().items()}, spec
    return "", {}, {}


def checked(spec: dict[str, Any], query: str, body: bytes) -> dict[str, Any]:
    """Return the parameters or the body, validated and typed by the contract.

    Raises:
        RefusedError: The request violates the contract.
    """
    if not spec:
        raise RefusedError(404, "no such call")
    schemas = {each["name"]: each["schema"] for each in spec.get("parameters", ()) if each["in"] == "query"}
    required = [each["name"] for each in spec.get("parameters", ()) if each["in"] == "query" and each["required"]]
    given = _unbracketed(parse_qsl(query, keep_blank_values=True))
    schema: dict[str, Any] = {"properties": schemas, "required": required, "additionalProperties": False}
    given = {name: _coerced(value, schemas.get(name, {})) for name, value in given.items()}
    if "requestBody" in spec and (body or spec["requestBody"]["required"]):
        schema = spec["requestBody"]["content"]["application/json"]["schema"]
        try:
            given = json.loads(body)
        except ValueError:
            raise RefusedError(400, "the body is not JSON") from None
        if given.get("content", "") is None:  # accepted live, though the document does not say so
            _hold(schema, given | {"content": ""})
            return given
    _hold(schema, given)
    return given


def _hold(schema: dict[str, Any], given: Any) -> None:
    error = next(Draft202012Validator(schema).iter_errors(given), None)
    if error is not None:
        raise RefusedError(400, f"Input validation failed: {'.'.join(map(str, error.absolute_path))} {error.message[:200]}")


def _unbracketed(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Parse `a[b][0]=c` into {"a": {"b": ["c"]}}."""
    tree: dict[str, Any] = {}
    for name, value in pairs:
        path = [name.partition("[")[0], *re.findall(r"\[([^\]]*)\]", name)]
        here = tree
        for step, after in zip(path, [*path[1:], None], strict=True):
            key = step or str(len(here))
            if after is None:
                here[key] = value
            else:
                here = here.setdefault(key, {})
                if not isinstance(here, dict):
                    raise RefusedError(400, f"{name} stands both as a value and as an object")
    return {key: _listed(value) for key, value in tree.items()}


def _listed(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value and all(key.isdigit() for key in value):
        return [_listed(value[key]) for key in sorted(value, key=int)]
    return {key: _listed(inner) for key, inner in value.items()}


def _coerced(value: Any, schema: dict[str, Any]) -> Any:
    """Convert texts to numbers but not to booleans, as Tana does."""
    if isinstance(value, str) and schema.get("type") == "number":
        try:
            return float(value)
        except ValueError:
            return value
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        if not properties:  # conditions within conditions have no types in the document
            properties = _conditions()
        for one in schema.get("anyOf", ()):
            properties = properties | one.get("properties", {})
        return {key: _coerced(inner, properties.get(key, {})) for key, inner in value.items()}
    if isinstance(value, list):
        return [_coerced(inner, schema.get("items", {})) for inner in value]
    return value


@cache
def _conditions() -> dict[str, Any]:
    search = next(spec for _, _, operation, spec in _contract() if operation == "nodes.search")
    return next(each["schema"]["properties"] for each in search["parameters"] if each["name"] == "query")
