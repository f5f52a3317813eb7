"""The browsable API's forms under preconditions: they say which version the page shows.

The version travels in a hidden input of the PUT form; a script of the page sends the ETag that it was answered with
as If-Match with every PUT, PATCH and DELETE, raw forms included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.db import models
from django.utils.html import format_html
from rest_framework.renderers import BaseRenderer, BrowsableAPIRenderer

from occ.rest_framework.inspection import serializer_facts
from occ.rest_framework.rows import stored_version

if TYPE_CHECKING:
    _Base = BrowsableAPIRenderer
else:
    _Base = object


class PreconditionForms(_Base):
    """Adds the version to the forms of a browsable renderer; comes before it among the bases."""

    occ_base_template: str

    def render_form_for_serializer(self, serializer: Any) -> Any:
        form = super().render_form_for_serializer(serializer)
        instance = getattr(serializer, "instance", None)
        if not form or not isinstance(instance, models.Model):
            return form
        row = stored_version(instance)
        names = serializer_facts(type(serializer)).version_names
        if row is None or not names:
            return form
        hidden = format_html('<input type="hidden" name="{}" value="{}">', names[0], row.version)
        return format_html("{}{}", hidden, form)

    def get_context(self, data: Any, accepted_media_type: Any, renderer_context: Any) -> dict[str, Any]:
        context = super().get_context(data, accepted_media_type, renderer_context)
        return {
            **context,
            "occ_base_template": self.occ_base_template,
            "occ_etag": renderer_context["response"].headers.get("ETag", ""),
        }


def with_preconditions(renderer: BaseRenderer) -> BaseRenderer:
    """Return ``renderer``, or if it is a browsable one, one like it whose forms say the version."""
    if not isinstance(renderer, BrowsableAPIRenderer) or isinstance(renderer, PreconditionForms):
        return renderer
    own = type(renderer)
    if own not in _guarded_classes:
        _guarded_classes[own] = _guarded(own)
    return _guarded_classes[own]()


def _guarded(own: type[BrowsableAPIRenderer]) -> type[BrowsableAPIRenderer]:
    attributes: dict[str, Any] = {"__doc__": own.__doc__, "occ_base_template": own.template}
    # Without the app Django finds neither template nor script; the hidden input works all the same.
    if apps.is_installed("occ"):
        attributes["template"] = "occ/rest_framework/api.html"
    return type(own.__name__, (PreconditionForms, own), attributes)


_guarded_classes: dict[type[BrowsableAPIRenderer], type[BrowsableAPIRenderer]] = {}
