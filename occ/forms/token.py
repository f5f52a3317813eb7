"""The signed token of a form: which object it shows, at which version, and with which values it started.

Knows models and signing, nothing of forms or requests. A token is proof of what a page showed; it is no permission
and no secret (anybody can read it in the page), so masked fields go in as keyed digests.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from django.core import signing
from django.core.exceptions import ValidationError
from django.db import models
from django.utils.crypto import salted_hmac

SALT = "occ.forms.token"
LONGEST = 1000  # characters; longer values go into the token as digests, so that pages stay small

# A value as the token holds it: text, the sorted keys of a many-to-many field, or {"digest": ...}.
Stored = None | str | list[str] | dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Token:
    """What one page showed of one object.

    Attributes:
        model: the model's label.
        pk: the primary key, as text.
        version: the version that the values belong to; what the next save compares with the row.
        base: the values the form started from, by field name.
        opened: when the person first opened the object, in seconds since 1970.
        opened_version: the version it had then.
        earlier: the values it had then, of fields that were part of a conflict since.
        pending: fields changed on both sides and not decided yet, each with a digest of what was typed.
    """

    model: str
    pk: str
    version: int
    base: Mapping[str, Stored]
    opened: float
    opened_version: int
    earlier: Mapping[str, Stored] = field(default_factory=dict)
    pending: Mapping[str, str] = field(default_factory=dict)

    def sign(self) -> str:
        """Return the token as text that cannot be forged, compressed when that is shorter."""
        return signing.dumps(asdict(self), salt=SALT, compress=True)

    @property
    def opened_at(self) -> datetime.datetime:
        """When the person first opened the object."""
        return datetime.datetime.fromtimestamp(self.opened, datetime.UTC)

    def is_of(self, instance: models.Model) -> bool:
        """Tell whether the token was issued for this very object."""
        return self.model == instance._meta.label and self.pk == str(instance.pk)


def read_token(text: object) -> Token | None:
    """Return the token, or None when it is missing, truncated, tampered with or signed by another key."""
    if not isinstance(text, str) or not text:
        return None
    try:
        return Token(**signing.loads(text, salt=SALT))
    except (signing.BadSignature, TypeError, ValueError):
        return None


def store(model_field: models.Field[Any, Any], value: Any) -> Stored:
    """Return ``value`` as text in the way of Django's serializers, which ``restore`` undoes.

    Line ends are normalized: a browser sends CRLF for a text that was stored with LF.
    """
    if value is None:
        return None
    if model_field.many_to_many:
        return sorted(str(getattr(item, "pk", item)) for item in value)
    if isinstance(model_field, models.JSONField):
        return json.dumps(value, cls=model_field.encoder, sort_keys=True)
    holder = cast(models.Model, SimpleNamespace(**{model_field.attname: value}))
    text = model_field.value_to_string(holder)
    return text.replace("\r\n", "\n") if isinstance(text, str) else json.dumps(text, sort_keys=True, default=str)


def shorten(stored: Stored, *, masked: bool = False) -> Stored:
    """Return what the token holds of a stored value: itself, or a keyed digest when it is long or secret."""
    if isinstance(stored, dict) or stored is None:
        return stored
    text = stored if isinstance(stored, str) else "\n".join(stored)
    if len(text) <= LONGEST and not masked:
        return stored
    return {"digest": salted_hmac(SALT, text, algorithm="sha256").hexdigest()}


def same(one: Stored, other: Stored) -> bool:
    """Tell whether two stored values are equal, either of which may have been shortened."""
    if isinstance(one, dict) != isinstance(other, dict):
        one, other = shorten(one, masked=True), shorten(other, masked=True)
    return one == other


def restore(model_field: models.Field[Any, Any], stored: Stored) -> Any:
    """Return the value that ``store`` was given.

    Raises:
        ValueError: only a digest is known.
    """
    if isinstance(stored, dict):
        raise ValueError("Of a long or masked value the token holds a digest only.")
    if stored is None or isinstance(stored, list):
        return stored
    if isinstance(model_field, models.JSONField):
        return json.loads(stored, cls=model_field.decoder)
    try:
        return model_field.to_python(stored)
    except ValidationError as error:
        raise ValueError(f"The token's {model_field.name} is no value of that field any more.") from error


def fingerprint(typed: object) -> str:
    """Return a short digest of what was typed into one input, to see later whether it was edited again."""
    return hashlib.blake2b(repr(typed).encode(errors="surrogatepass"), digest_size=12).hexdigest()
