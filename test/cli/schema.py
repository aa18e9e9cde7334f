# SPDX-License-Identifier: Apache-2.0
"""The part of JSON Schema that docs/schema uses: enough to hold every verdict against it, without packages. What it does
not know it refuses, so that a schema never says more than is checked."""
import json, math, pathlib

kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
known = {"$schema", "title", "description", "type", "enum", "const", "properties", "required", "additionalProperties", "items", "$ref"}
folder = pathlib.Path(__file__).resolve().parents[2] / "docs/schema"


def is_kind(value, kind):
    if kind in ("integer", "number"):
        whole = isinstance(value, int) and not isinstance(value, bool)
        return whole or (kind == "number" and isinstance(value, float) and math.isfinite(value))
    return isinstance(value, kinds[kind])


def validate(value, schema, path="$"):
    """The first thing that is amiss, as a sentence, or None."""
    if unknown := schema.keys() - known:
        return f"{path}: the schema has {', '.join(sorted(unknown))}, which are not checked"
    if "$ref" in schema:
        return validate(value, json.loads((folder / schema["$ref"]).read_text()), path)
    if "const" in schema and value != schema["const"]:
        return f"{path}: {value!r} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{path}: {value!r} is none of {schema['enum']}"
    if "type" in schema:
        wanted = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(is_kind(value, kind) for kind in wanted):
            return f"{path}: {value!r} is not of type {' or '.join(wanted)}"
    if isinstance(value, dict):
        for key in schema.get("required", ()):
            if key not in value:
                return f"{path}: `{key}` is missing"
        for key, entry in value.items():
            if key in schema.get("properties", {}):
                if problem := validate(entry, schema["properties"][key], f"{path}.{key}"):
                    return problem
            elif schema.get("additionalProperties") is False:
                return f"{path}: `{key}` is not known"
    if isinstance(value, list) and "items" in schema:
        for i, entry in enumerate(value):
            if problem := validate(entry, schema["items"], f"{path}[{i}]"):
                return problem
    return None
