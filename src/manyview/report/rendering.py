"""Templates, styles and scripts, rendered as one self-contained page."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from manyview.report.text import as_json, figure


def rendered(
    template: str,
    *,
    contents: Sequence[tuple[str, str]],
    data: Mapping[str, Any],
    scripts: Sequence[str] = (),
    code: Sequence[str] = (),
    **content: Any,
) -> bytes:
    """Return a page as bytes.

    `contents` are the anchors and titles of its sections, `data` what its scripts read. `code`
    comes before the `scripts`, which are names of assets. Only these scripts may run.
    """
    environment = Environment(
        loader=PackageLoader("manyview.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure"] = figure
    embedded = [_script(source) for source in (*code, *map(_asset, (*scripts, "fold.js")))]
    page = environment.get_template(template).render(
        **content,
        contents=contents,
        data=Markup(as_json(data)),
        style=Markup(_asset("report.css")),
        scripts=embedded,
        policy=" ".join(map(_policy, embedded)),
        written=datetime.now(UTC),
    )
    # names may contain lone surrogates
    return page.encode(errors="replace")


def _asset(name: str) -> str:
    return files("manyview.report").joinpath("assets", name).read_text(encoding="utf-8")


def _script(code: str) -> Markup:
    # browsers normalise line ends before they check the hash
    return Markup(code.replace("\r\n", "\n").replace("\r", "\n"))


def _policy(script: str) -> str:
    """Return the content security policy source that allows this script."""
    return f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"
