"""Safe text for the page: names, numbers and JSON."""

from __future__ import annotations

import html
import json
import math
from typing import Any

MISSING = "\N{EN DASH}"

_UNSAFE = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def short(text: object, most: int = 60) -> str:
    """Return text on one line, cut to `most` characters.

    >>> short("a rather long name", 8)
    'a rathe…'
    """
    line = " ".join(str(text).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def plotly_text(text: object, most: int = 60) -> str:
    """Return text with the HTML tags escaped that plotly would interpret.

    >>> plotly_text("<b>x</b>")
    '&lt;b&gt;x&lt;/b&gt;'
    """
    return html.escape(short(text, most), quote=False)


def as_json(value: Any) -> str:
    r"""Return JSON that is safe inside a script element.

    >>> as_json(["</script>"])
    '["\\u003c/script\\u003e"]'
    """
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.translate(_UNSAFE)


def compact(value: float | None, digits: int = 4) -> float | None:
    """Return a number rounded to few digits, or None if it is not finite.

    >>> compact(0.123456), compact(float("nan"))
    (0.1235, None)
    """
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")


def figure(value: float, digits: int = 3) -> str:
    """Return a number as table text, with a number of significant digits and no exponent.

    >>> figure(0.01234), figure(1234.5), figure(float("nan")) == MISSING
    ('0.0123', '1234', True)
    """
    if not math.isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{decimals}f}"
