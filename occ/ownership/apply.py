"""One apply: read the row, decide by the rules, write it in one statement that holds only while the decision does."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from django.db import DatabaseError, connections, models, transaction
from django.db.models import F, sql

from occ.attribution import check_manager_name, field_manager
from occ.exceptions import Conflict, FieldConflict
from occ.fields import get_version, read_version
from occ.journal import record
from occ.managed_fields import Unmoved, ownable_fields
from occ.ownership import rules
from occ.ownership.values import checked_values, default_of, is_same
from occ.retry import LOCK_AFTER, Attempts
from occ.signals import conflict_detected, rows_written, send_rows_written, write_observers
from occ.snapshots import Snapshot, save_changes
from occ.writes import read_row


class Application:
    """One call of ``apply``."""

    def __init__(
        self,
        queryset: models.QuerySet[Any, Any],
        values: Mapping[str, Any],
        *,
        manager: str,
        force: bool,
        dry_run: bool,
    ) -> None:
        check_manager_name(manager)
        self.model: Any = queryset.model
        self.values = checked_values(queryset.model, values)
        self.manager = manager
        self.force = force
        self.dry_run = dry_run
        queryset._for_write = True  # type: ignore[attr-defined]
        self.using = queryset.db
        self.connection = connections[self.using]
        self.queryset = queryset.using(self.using).defer(None)

    def run(self, pk: Any) -> Any:
        """Apply; again on a fresh read while others move the same fields."""
        attempts = Attempts(using=self.using, backoff=None, lock_after=LOCK_AFTER, atomic=True)
        with field_manager(self.manager):
            while True:
                in_block = self.connection.in_atomic_block
                try:
                    with self._under_lock() if attempts.under_lock else nullcontext():
                        return self._attempt(pk, lock=attempts.under_lock)
                except DatabaseError as error:
                    delay = attempts.delay_after(error, in_block=in_block)
                time.sleep(delay)

    @contextmanager
    def _under_lock(self) -> Iterator[None]:
        """Open the transaction that a lock needs.

        Without one each statement stands for itself, and the UPDATE waits for the writer before it and then looks at
        what that left. Under REPEATABLE READ, PostgreSQL would refuse it instead, every time: the level is lowered.
        """
        lowered = self.connection.vendor == "postgresql" and not self.connection.in_atomic_block
        with transaction.atomic(using=self.using):
            if lowered:
                with self.connection.cursor() as cursor:
                    cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
            yield

    def _attempt(self, pk: Any, *, lock: bool) -> Any:
        # In an open transaction MySQL's SELECT may show what has been overtaken; a locking one does not.
        lock = lock or (self.connection.in_atomic_block and self.connection.vendor == "mysql" and not self.dry_run)
        instance = read_row(self.queryset, pk, self.using, lock=lock)
        plan = self._plan(instance)
        if plan.contested:
            raise FieldConflict(
                model=self.model, pk=instance.pk, manager=self.manager, conflicts=plan.contested, using=self.using
            )
        if not plan.change:
            return instance
        write = OwnedWrite(instance, plan, using=self.using)
        for name in plan.values:
            write.set(name, self.values[name])
        for name in plan.reset:
            write.reset(name)
        if self.dry_run:
            write.pretend()
        elif not write.execute():
            try:
                return read_row(self.queryset, pk, self.using, lock=False)
            except self.model.DoesNotExist:  # what was written took it out of the queryset's filters
                return read_row(self.model._base_manager.all(), pk, self.using, lock=False)
        return instance

    def _plan(self, instance: models.Model) -> rules.Plan:
        ownable, column = ownable_fields(self.model), self.model._occ_managed_fields
        current = {name: getattr(instance, ownable[name].attname) for name in self.values}
        return rules.plan(
            getattr(instance, column.attname),
            manager=self.manager,
            wanted=self.values,
            same={n for n, value in self.values.items() if is_same(ownable[n], current[n], value, self.connection)},
            current=current,
            force=self.force,
            keep=False,
        )


def apply_changes(instance: Any, snapshot: Snapshot, *, manager: str, force: bool = False) -> bool:
    """Write what changed on ``instance`` since ``snapshot``, and have ``manager`` own it beside what it owns already.

    The write is guarded by the ownership of these fields as ``instance`` was read with, not by its version, which is
    afterwards that of the row. Returns whether anything was written: nothing changed, nothing is.

    Raises:
        FieldConflict: others own fields that were changed, and ``force`` is False. Nothing was written.
        Conflict: the ownership of these fields has moved meanwhile. Nothing was written.
    """
    snapshot = Snapshot.of(instance) or snapshot  # a save by hand has moved it along
    changed, ownable = snapshot.changed(instance), ownable_fields(instance._meta.concrete_model)
    owned = [name for name in changed if name in ownable]
    if not owned:
        return save_changes(instance, snapshot)
    column = instance._occ_managed_fields
    plan = rules.plan(
        getattr(instance, column.attname),
        manager=manager,
        wanted=owned,
        same=(),
        current={name: snapshot.value(ownable[name]) for name in owned},
        force=force,
        keep=True,
    )
    if plan.contested:
        raise FieldConflict(
            model=type(instance), pk=instance.pk, manager=manager, conflicts=plan.contested, using=snapshot.using
        )
    with field_manager(manager):
        write = OwnedWrite(instance, plan, using=snapshot.using)
        for name in changed:
            write.set(name, getattr(instance, instance._meta.get_field(name).attname))
        write.execute()
    return True


class OwnedWrite:
    """The guarded UPDATE of one row, on the condition that the entries it was decided on have not moved."""

    def __init__(self, instance: Any, plan: rules.Plan, *, using: str) -> None:
        self.instance = instance
        self.model = instance._meta.concrete_model
        self.plan = plan
        self.using = using
        self.column = self.model._occ_managed_fields
        self.version = self.model._occ_version_field
        self._values: dict[models.Field[Any, Any], Any] = {}
        self._known = True  # whether the values in memory are those that the row will have

    def set(self, name: str, value: Any) -> None:
        """Write ``value`` to the field ``name``."""
        field = self.model._meta.get_field(name)
        self._values[field] = value
        setattr(self.instance, field.attname, value)

    def reset(self, name: str) -> None:
        """Return the field ``name`` to its default."""
        field = ownable_fields(self.model).get(name)
        has_default, value = default_of(field) if field is not None else (False, None)
        if not has_default or field is None:
            return
        if hasattr(value, "resolve_expression"):
            self._values[field] = value
            self._known = False
        else:
            self.set(name, value)

    def pretend(self) -> None:
        """Make the object what it would be, without a statement."""
        self._follow(get_version(self.instance), get_version(self.instance) + 1)

    def execute(self) -> bool:
        """Write, and return whether the object is as its row; if not, it has to be read anew.

        Raises:
            Conflict: the entries have moved. Nothing was written.
        """
        before = get_version(self.instance)
        for field in self.model._meta.concrete_fields:
            if getattr(field, "auto_now", False):
                self._values[field] = field.pre_save(self.instance, False)
        others = {field for field in self._values if field.model is not self.column.model}
        told = rows_written.has_listeners(self.model)
        with transaction.atomic(using=self.using, savepoint=False) if others or told else nullcontext():
            after = self._update()
            for model in {field.model for field in others}:
                rows = model._base_manager.using(self.using).filter(pk=self._key_in(model))
                own = {field.attname: self._values[field] for field in others if field.model is model}
                models.QuerySet.update(rows, **own)
            if told:
                send_rows_written(self.model, self.using, [self.instance.pk], "apply")
        for observe in write_observers:
            observe(self.model, 1)
        connection, root = connections[self.using], self.column.model
        if not connection.autocommit or connection.in_atomic_block:
            past = self.instance._state.__dict__.get("occ_loaded")
            record(connection, self.instance, root, self._key_in(root), before, past=past)
        self._follow(after, after)
        return self._known and after == before + 1

    def _update(self) -> int:
        """Write the row of the table with the version; return the version that it got."""
        connection, root = connections[self.using], self.column.model
        rows = root._base_manager.using(self.using).filter(
            Unmoved(F(self.column.name), self.plan.found), pk=self._key_in(root)
        )
        query = rows.query.chain(sql.UpdateQuery)
        own = [(f, None, value) for f, value in self._values.items() if f.model is root]
        following: Any = F(self.version.name) + 1
        if connection.vendor == "mysql":  # which has no RETURNING; the driver tells this id with the result
            following = models.Func(following, function="LAST_INSERT_ID", output_field=self.version)
        # The version last: MySQL assigns from left to right, and the entries are dated by the old one.
        query.add_update_fields(
            [*own, (self.column, None, self.column.changing(self.plan.change)), (self.version, None, following)]
        )
        statement, params = query.get_compiler(self.using).as_sql()
        with connection.cursor() as cursor:
            if connection.vendor == "mysql":
                cursor.execute(statement, params)
                if cursor.rowcount:
                    return int(cursor.lastrowid)
            else:
                cursor.execute(f"{statement} RETURNING {connection.ops.quote_name(self.version.column)}", params)
                for (version,) in cursor.fetchall():
                    return int(version)
        conflict = Conflict(
            model=self.model,
            pk=self.instance.pk,
            expected=get_version(self.instance),
            actual=read_version(root, self.version, self._key_in(root), self.using),
            operation="apply",
            using=self.using,
        )
        conflict_detected.send(sender=self.model, conflict=conflict)
        raise conflict

    def _key_in(self, model: Any) -> Any:
        return self.instance._get_pk_val(model._meta)

    def _follow(self, version: int, at: int) -> None:
        managed = {
            name: entry
            for name, entry in getattr(self.instance, self.column.attname).items()
            if name not in self.plan.removed
        }
        managed |= {name: {"at": at, **entry} for name, entry in self.plan.entries.items()}
        setattr(self.instance, self.column.attname, managed)
        setattr(self.instance, self.version.attname, version)
        self.column.remember(self.instance, self.using)
