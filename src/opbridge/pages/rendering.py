"""Templates and data, to one page of HTML."""

from __future__ import annotations

import base64
import functools
import json
import math
import re
import zlib
from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any

from opbridge.base.version import __version__
from opbridge.base.wording import counted, duration

if TYPE_CHECKING:
    import jinja2

__all__ = ["LAYOUT", "has_layout", "plain_data", "render"]

LAYOUT = "vendor/dagre.min.js"
"""The library that lays out graphs, in `static/`; the build brings it."""

_COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
"""What terminals take for colours and links."""

_STATIC = resources.files("opbridge.pages").joinpath("static")


def render(template: str, document: Mapping[str, Any], **more: Any) -> str:
    """A page, or a part of one.

    Args:
        template: Its name in `templates/`.
        document: What it shows, as plain data. The template sees it as `document`, and a page's scripts as the JSON
            that `embedded` puts there.
        **more: What else the template sees.
    """
    plain = plain_data(document)
    return _environment().get_template(template).render(document=plain, version=__version__, **more)


def has_layout() -> bool:
    """Whether the library that lays out graphs is there."""
    return _STATIC.joinpath(LAYOUT).is_file()


@functools.cache
def _environment() -> jinja2.Environment:
    import jinja2  # takes a while, and most exports write no page

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_template),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals.update(static=_static, embedded=_embedded, has_layout=has_layout)
    environment.filters.update(number=_number, error=_error, seconds=duration, counted=_counted, size=_size)
    return environment


def _template(name: str) -> str:
    return resources.files("opbridge.pages").joinpath("templates", name).read_text(encoding="utf-8")


def _static(name: str) -> str:
    """The text of a file of `static/`, for a <style> or <script>."""
    text = _STATIC.joinpath(name).read_text(encoding="utf-8")
    return text.replace("</script", "<\\/script").replace("</style", "<\\/style")


def _embedded(document: Any) -> str:
    """A document as the page holds it: JSON, deflated, in base64."""
    text = json.dumps(plain_data(document), ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), 9)).decode("ascii")


def plain_data(value: Any) -> Any:
    """A value as JSON has it: infinities and NaN become text, and text loses what is for terminals."""
    if isinstance(value, Mapping):
        return {str(key): plain_data(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain_data(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    return _COLOURS.sub("", str(value))


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _error(value: Any) -> str:
    return f"{value:.1e}" if isinstance(value, float) and value else "0" if not value else str(value)


def _counted(count: int, what: str) -> str:
    return counted(count, what).replace(str(count), _number(count), 1)


def _size(count: float) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count:.0f} B"
