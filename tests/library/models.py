"""Models that the tests of occ and reconcilers share: a small library."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.contrib.contenttypes.fields import GenericForeignKey, GenericRelation
from django.contrib.contenttypes.models import ContentType
from django.db import models

from occ.fields import VersionField, from_clock
from occ.models import OptimisticLockManager, OptimisticLockModel, OptimisticLockQuerySet
from occ.ownership import FieldOwnershipModel, ManagedFields


class Author(OptimisticLockModel):
    name = models.CharField(max_length=100)

    def __str__(self) -> str:
        return self.name


class Tag(models.Model):
    name = models.CharField(max_length=50)

    def __str__(self) -> str:
        return self.name


class Book(OptimisticLockModel):
    """The ordinary model: numbers, text, JSON, relations."""

    title = models.CharField(max_length=100)
    stock = models.IntegerField(default=0)
    price = models.DecimalField(max_digits=8, decimal_places=2, default=0)
    notes = models.TextField(blank=True, default="")
    details = models.JSONField(default=dict, blank=True)
    author = models.ForeignKey(Author, models.CASCADE, null=True, blank=True, related_name="books")
    editor = models.ForeignKey(Author, models.SET_NULL, null=True, blank=True, related_name="edited")
    tags = models.ManyToManyField(Tag, blank=True)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.title


class Chapter(OptimisticLockModel):
    book = models.ForeignKey(Book, models.CASCADE, related_name="chapters")
    title = models.CharField(max_length=100)
    pages = models.IntegerField(default=1)

    def __str__(self) -> str:
        return self.title


class PlainBook(models.Model):
    """What ``Book`` would be without the guard, to compare costs with."""

    title = models.CharField(max_length=100)
    stock = models.IntegerField(default=0)
    price = models.DecimalField(max_digits=8, decimal_places=2, default=0)
    notes = models.TextField(blank=True, default="")
    details = models.JSONField(default=dict, blank=True)
    author = models.ForeignKey(Author, models.CASCADE, null=True, blank=True, related_name="+")
    editor = models.ForeignKey(Author, models.SET_NULL, null=True, blank=True, related_name="+")
    updated_at = models.DateTimeField(auto_now=True)
    # A plain counter in the place of the version, so that both tables have as many columns.
    counter = models.BigIntegerField(default=1)

    def __str__(self) -> str:
        return self.title


class Counter(OptimisticLockModel):
    """One number that many writers move."""

    value = models.IntegerField(default=0)

    def __str__(self) -> str:
        return str(self.value)


class PlainCounter(models.Model):
    value = models.IntegerField(default=0)
    counter = models.BigIntegerField(default=1)

    def __str__(self) -> str:
        return str(self.value)


class Shelf(OptimisticLockModel):
    """Keyed by a slug, whose versions must not repeat; its version has another name."""

    version = None  # type: ignore[assignment]
    code = models.SlugField(primary_key=True)
    revision = VersionField(start=from_clock, db_column="rev")
    label = models.CharField(max_length=100, blank=True, default="")

    def __str__(self) -> str:
        return self.code


class Manuscript(OptimisticLockModel):
    title = models.CharField(max_length=100)
    scan = models.FileField(upload_to="scans", blank=True)
    contract = models.FileField(upload_to="contracts")

    def __str__(self) -> str:
        return self.title


class Attachment(OptimisticLockModel):
    manuscript = models.ForeignKey(Manuscript, models.CASCADE, related_name="attachments")
    file = models.FileField(upload_to="attachments")


class Anthology(OptimisticLockModel):
    """With a relation through a model of its own, and one to anything."""

    title = models.CharField(max_length=100)
    authors = models.ManyToManyField(Author, through="Credit")
    remarks = GenericRelation("Remark")

    def __str__(self) -> str:
        return self.title


class Credit(OptimisticLockModel):
    anthology = models.ForeignKey(Anthology, models.CASCADE)
    author = models.ForeignKey(Author, models.CASCADE)
    role = models.CharField(max_length=20, blank=True, default="")

    def __str__(self) -> str:
        return f"{self.author} ({self.role})"


class Remark(OptimisticLockModel):
    """About any object."""

    # Tables of apps without migrations are made before those of apps with them.
    content_type = models.ForeignKey(ContentType, models.CASCADE, db_constraint=False)
    object_id = models.PositiveBigIntegerField()
    about = GenericForeignKey()
    text = models.CharField(max_length=100)

    def __str__(self) -> str:
        return self.text


class Loan(OptimisticLockModel):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    book = models.ForeignKey(Book, models.PROTECT, null=True)
    returned = models.BooleanField(default=False)

    def __str__(self) -> str:
        return str(self.id)


class VisibleQuerySet(OptimisticLockQuerySet["Member"]):
    def active(self) -> VisibleQuerySet:
        return self.filter(active=True)


class VisibleManager(OptimisticLockManager["Member"]):
    def get_queryset(self) -> Any:
        return super().get_queryset().filter(active=True)


class Member(OptimisticLockModel):
    """Its default manager hides rows, which saves and relations must see all the same; it caches a counter."""

    name = models.CharField(max_length=100)
    active = models.BooleanField(default=True)
    last_seen = models.DateTimeField(null=True)
    loans = models.IntegerField(default=0)

    objects: ClassVar[VisibleManager] = VisibleManager()

    occ_unguarded_fields = ("last_seen", "loans")

    def __str__(self) -> str:
        return self.name


class Medium(OptimisticLockModel):
    """The root of a multi-table hierarchy: one version for all tables."""

    title = models.CharField(max_length=100)

    def __str__(self) -> str:
        return self.title


class Film(Medium):
    minutes = models.IntegerField(default=0)


class Documentary(Film):
    subject = models.CharField(max_length=100, blank=True, default="")


class FilmProxy(Film):
    class Meta:
        proxy = True


class Category(OptimisticLockModel):
    """A tree: deletion cascades within one table."""

    name = models.CharField(max_length=100)
    parent = models.ForeignKey("self", models.CASCADE, null=True, related_name="children")

    def __str__(self) -> str:
        return self.name


class Holding(OptimisticLockModel):
    """A composite key."""

    pk = models.CompositePrimaryKey("branch", "number")
    branch = models.IntegerField()
    number = models.IntegerField()
    copies = models.IntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.branch}/{self.number}"


class Place(OptimisticLockModel):
    """Keyed by a long text."""

    path = models.CharField(max_length=255, primary_key=True)

    def __str__(self) -> str:
        return self.path


class Cover(OptimisticLockModel):
    """Keyed by a relation."""

    book = models.OneToOneField(Book, models.CASCADE, primary_key=True)
    colour = models.CharField(max_length=20, default="red")

    def __str__(self) -> str:
        return self.colour


def some_tag() -> int:
    return int(Tag._default_manager.get_or_create(name="replacement")[0].pk)


class Poster(OptimisticLockModel):
    """Every on_delete that writes a row instead of deleting it."""

    nulled = models.ForeignKey(Tag, models.SET_NULL, null=True, related_name="+")
    defaulted = models.ForeignKey(Tag, models.SET_DEFAULT, default=None, null=True, related_name="+")
    called = models.ForeignKey(Tag, models.SET(some_tag), null=True, related_name="+")

    def __str__(self) -> str:
        return str(self.pk)


class Playlist(OptimisticLockModel):
    name = models.CharField(max_length=50, unique=True)

    def __str__(self) -> str:
        return self.name


class Track(OptimisticLockModel):
    playlist = models.ForeignKey(Playlist, models.CASCADE)

    class Meta:
        order_with_respect_to = "playlist"

    def __str__(self) -> str:
        return str(self.pk)


class Team(OptimisticLockModel):
    """Deleted with its players, of whom it refers to one."""

    captain = models.ForeignKey("Player", models.SET_NULL, null=True, related_name="captain_of")
    rival = models.ForeignKey("self", models.SET_NULL, null=True)

    def __str__(self) -> str:
        return str(self.pk)


class Player(OptimisticLockModel):
    team = models.ForeignKey(Team, models.CASCADE, related_name="players")

    def __str__(self) -> str:
        return str(self.pk)


class Gate(FieldOwnershipModel):
    """Fields of every kind that managers own."""

    name = models.CharField(max_length=50, blank=True)
    replicas = models.PositiveIntegerField(default=1)
    image = models.CharField(max_length=100, blank=True, default="")
    price = models.DecimalField(max_digits=8, decimal_places=2, default=0)
    spec = models.JSONField(default=dict, blank=True)
    opens_at = models.DateTimeField(null=True, blank=True)
    author = models.ForeignKey(Author, models.SET_NULL, null=True, blank=True, related_name="+")
    size = models.IntegerField(db_default=3)
    hits = models.IntegerField(default=0)
    updated_at = models.DateTimeField(auto_now=True)
    tags = models.ManyToManyField(Tag, blank=True)

    occ_unguarded_fields = ("hits",)

    def __str__(self) -> str:
        return self.name


class Column(FieldOwnershipModel):
    """Ten columns for ten managers."""

    f0 = models.IntegerField(default=0)
    f1 = models.IntegerField(default=0)
    f2 = models.IntegerField(default=0)
    f3 = models.IntegerField(default=0)
    f4 = models.IntegerField(default=0)
    f5 = models.IntegerField(default=0)
    f6 = models.IntegerField(default=0)
    f7 = models.IntegerField(default=0)
    f8 = models.IntegerField(default=0)
    f9 = models.IntegerField(default=0)

    def __str__(self) -> str:
        return str(self.pk)


class Engine(FieldOwnershipModel):
    """The root of a hierarchy of owned tables; its owners have another name."""

    managed_fields = None
    owners = ManagedFields(db_column="who")
    label = models.CharField(max_length=50, unique=True)
    power = models.IntegerField(default=0)

    def __str__(self) -> str:
        return self.label


class Diesel(Engine):
    tank = models.IntegerField(default=10)
    note = models.CharField(max_length=50, blank=True, default="")
