"""The page of the API, made from its OpenAPI schema: one HTML file and one style sheet, no script, nothing from elsewhere."""

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

STYLE = Path(__file__).with_name("docs.css")
CURL = """curl {address}/v1/chat/completions -H 'Content-Type: application/json' \\
  -d '{{"model": "NAME", "messages": [{{"role": "user", "content": "Bonjour"}}]}}'"""
SERVICE = ("/health", "/ready", "/metrics", "/v1/models")
LARGE = 1e12  # a bound beyond which nobody asks
Schema = Mapping[str, Any]


def render_docs(openapi: Schema, address: str) -> str:
    """All endpoints of the server at an address with their fields, by tag."""
    groups: dict[str, list[str]] = {}
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            groups.setdefault((operation.get("tags") or ["other"])[0], []).append(_endpoint(path, method, operation, openapi))
    parts = [f"<h2>{escape(tag.capitalize())}</h2>{''.join(own)}" for tag, own in groups.items()]
    info = openapi["info"]
    links = ", ".join(f'<a href="{path}">{path}</a>' for path in SERVICE)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<title>{escape(info["title"])} API</title><link rel="icon" href="data:,">'
        '<link rel="stylesheet" href="/docs/style.css"></head><body>'
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info.get('summary', ''))}</p>"
        "<p>Endpoints that OpenAI has follow its conventions: its clients work with <code>base_url</code> set to this server’s "
        '<code>/v1</code>. The same as a schema: <a href="/openapi.json">/openapi.json</a>. Also here: '
        f"{links}. Fields with * are required.</p>"
        f"<pre>{escape(CURL.format(address=address))}</pre>{''.join(parts)}</body></html>"
    )


def _endpoint(path: str, method: str, operation: Schema, openapi: Schema) -> str:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    answer = operation["responses"].get("200", {}).get("content", {}).get("application/json", {}).get("schema")
    about = operation.get("description", "")
    head = f'<span class="method">{method.upper()}</span> <code>{escape(path)}</code><span class="about">{escape(about)}</span>'
    fields = _fields("Request", body, openapi) + _fields("Response", answer, openapi)
    return f'<details id="{escape(operation["operationId"])}"><summary>{head}</summary>{fields}</details>'


def _fields(title: str, schema: Schema | None, openapi: Schema) -> str:
    """A table of the fields of each type that the schema may be, and of the types in it."""
    if not schema:
        return ""
    waiting = list(schema.get("anyOf", [schema]))
    whole, shown, found = len(waiting), set[str](), ""
    for place, one in enumerate(waiting):  # grows on the way
        own = _resolve(one, openapi)
        named, required = own.get("title", ""), own.get("required", ())
        if named in shown or (place >= whole and "properties" not in own):
            continue
        shown.add(named)
        waiting += [part for field in own.get("properties", {}).values() for part in _references(field)]
        rows = "".join(
            f"<tr><td><code>{escape(name)}</code>{' *' if name in required else ''}</td><td>{escape(_kind(field))}</td>"
            f"<td>{escape(field.get('description', ''))}</td></tr>"
            for name, field in own.get("properties", {}).items()
        )
        head = f"<h4>{title if place < whole else 'with'} <code>{escape(named)}</code></h4>"
        found += f"{head}<table><tr><th>field</th><th>type</th><th></th></tr>{rows}</table>"
    return found


def _references(schema: Schema) -> list[Schema]:
    """The named types in a field's."""
    if "$ref" in schema:
        return [schema]
    inside = [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())]
    return [found for one in inside for found in _references(one)]


def _resolve(schema: Schema, openapi: Schema) -> Schema:
    name = schema.get("$ref", "").rpartition("/")[2]
    return openapi["components"]["schemas"].get(name, schema) if name else schema


def _kind(schema: Schema) -> str:
    """A type as people say it: "text", "list of number (1 to 32 entries)"."""
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"] if one.get("type") != "null")
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    kind = str(schema.get("type", "any"))
    if kind == "array":
        kind = f"list of {_kind(schema.get('items', {}))}"
    low = next((schema[key] for key in ("minimum", "exclusiveMinimum", "minItems", "minLength") if key in schema), None)
    high = next((schema[key] for key in ("maximum", "exclusiveMaximum", "maxItems", "maxLength") if key in schema), None)
    if high is not None and high < LARGE:
        unit = " letters" if "maxLength" in schema else " entries" if "maxItems" in schema else ""
        kind += f" ({low or 0:g} to {high:,g}{unit})" if high < 1e6 else f" (at most {high:,.0f}{unit})"
    return kind
