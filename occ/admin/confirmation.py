"""Confirmation pages: they remember what they showed, whatever template made them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from django.http import HttpResponse
from django.template.response import SimpleTemplateResponse
from django.utils.html import format_html_join

# The input that every confirmation form of the admin has, and by which Django knows a confirmed submit.
_ANCHOR = re.compile(rb"""<input\b[^>]*\bname=["'](?:post|_selected_action)["'][^>]*>""")


def remember(response: Any, fields: Iterable[tuple[str, str]]) -> None:
    """Add hidden fields to the confirmation form in a response, if it has one."""
    html = format_html_join("", '<input type="hidden" name="{}" value="{}" autocomplete="off">', fields).encode()

    def add(rendered: HttpResponse) -> None:
        anchor = _ANCHOR.search(rendered.content)
        if anchor is not None:
            rendered.content = rendered.content[: anchor.start()] + html + rendered.content[anchor.start() :]

    if isinstance(response, SimpleTemplateResponse) and not response.is_rendered:
        response.add_post_render_callback(add)
    elif isinstance(response, HttpResponse) and not response.streaming:
        add(response)
