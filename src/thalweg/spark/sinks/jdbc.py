"""Results as rows of a table in a database, merged by key."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql import types as t

from thalweg.catalog.model import Destination
from thalweg.errors import UserError
from thalweg.query.model import RESULT_TIME, Expr, quoted
from thalweg.spark.sinks.sink import BatchResults, Setting, Sink, key_of

DIALECTS = ("postgresql", "h2", "derby")
"""The databases whose MERGE has been tried."""

_NO_DRIVER = ("No suitable driver", "ClassNotFoundException")
_LONGEST = 255
"""Characters of a text in a key, in databases that have no index over texts of any length."""


@dataclass(frozen=True)
class JdbcSink(Sink):
    """One row for each key.

    Spark's workers write a batch to a table beside; one MERGE then brings it into the table, whole or not.
    """

    guarantee: ClassVar[str] = "one row for each key: a batch that a crash interrupts is merged again"

    to: Destination
    setting: Setting

    @property
    def table(self) -> str:
        return self.to.option("dbtable") or ""

    @property
    def url(self) -> str:
        return self.to.option("url") or ""

    @property
    def staging(self) -> str:
        """The table beside, of this run and sink alone."""
        own = "\n".join((self.setting.run, self.setting.query.name, self.url, self.table))
        schema, dot, _ = self.table.rpartition(".")
        return f"{schema}{dot}thalweg_{hashlib.sha256(own.encode()).hexdigest()[:16]}"

    def key(self, results: DataFrame) -> list[str]:
        """The columns that make a row: those of the catalog, or else the result's id."""
        own = self.setting.query.id_column
        if not self.to.key and own is None:
            raise UserError(
                "rows are merged by key, and there is none",
                where=self.to.where,
                remedy="add `key` with columns of the results, or select result_id",
            )
        return key_of(self.to, results) or [str(own)]

    def prepare(self, results: DataFrame) -> None:
        """Makes the table, if it is not there."""
        dialect = self.url.split(":")[1] if self.url.startswith("jdbc:") else self.url
        if dialect not in DIALECTS:
            raise UserError(
                f"the database {dialect[:40]!r} is not supported",
                where=self.to.where,
                remedy=f"supported are {', '.join(DIALECTS)}",
            )
        key = self.key(results)
        with self._connected() as database:
            if database.columns(self.table) is None:
                self._create(results, key, lengths=dialect != "postgresql")
                names = ", ".join(map(_name, key))
                database.run(f"ALTER TABLE {self.table} ADD PRIMARY KEY ({names})")
            self._columns(database, results.columns)

    def write(self, results: BatchResults) -> None:
        if not results.count:
            return
        frame = results.frame(self.setting.spark)
        key = self.key(frame)
        with self._connected() as database:
            columns = self._columns(database, frame.columns)
            if database.columns(self.staging) is not None:  # of an earlier attempt
                database.run(f"DROP TABLE {self.staging}")
            names = ", ".join(map(_name, columns.values()))
            database.run(f"CREATE TABLE {self.staging} AS SELECT {names} FROM {self.table} WITH NO DATA")
            self._append(self._latest(frame, key).withColumnsRenamed(dict(columns)), self.staging)
            database.run(self._merge(columns, key))
            database.run(f"DROP TABLE {self.staging}")

    def _create(self, results: DataFrame, key: Sequence[str], *, lengths: bool) -> None:
        """An empty table with Spark's types; the columns of the key can't be NULL."""
        fields = [t.StructField(f.name, f.dataType, f.name not in key) for f in results.schema]
        texts = [f.name for f in fields if f.name in key and isinstance(f.dataType, t.StringType)]
        types = ", ".join(f"{quoted(name)} VARCHAR({_LONGEST})" for name in texts)
        more = {"createTableColumnTypes": types} if lengths and texts else {}
        empty = self.setting.spark.createDataFrame([], t.StructType(fields))
        self._append(empty, self.table, more)

    def _append(self, rows: DataFrame, table: str, more: Mapping[str, str] | None = None) -> None:
        own = {k: v for k, v in self.to.options.items() if k.lower() != "dbtable"}
        writer = rows.write.format("jdbc").mode("append")
        writer.options(**{**(more or {}), **own, "dbtable": table}).save()

    def _latest(self, results: DataFrame, key: Sequence[str]) -> DataFrame:
        """One row for each key: of several, the one with the greatest time, then with the greatest values."""
        time = self._time
        rest = sorted((c for c in results.columns if c not in key), key=lambda c: c != time)
        keys = [fn.col(quoted(c)) for c in key]
        if not rest:
            return results.distinct()
        greatest = fn.max(fn.struct(*map(quoted, rest))).alias("@row")
        chosen = [fn.col("`@row`").getField(c).alias(c) for c in rest]
        return (
            results.groupBy(*keys).agg(greatest).select(*keys, *chosen).select(*map(quoted, results.columns))
        )

    @property
    def _time(self) -> str | None:
        """The column with the result's time, if there is one."""
        whole = Expr(quoted(RESULT_TIME))
        return next((o.name for o in self.setting.query.outputs if o.expr == whole), None)

    def _merge(self, columns: Mapping[str, str], key: Sequence[str]) -> str:
        """The statement; a row with a later time than the new one stays."""
        own = {c: _name(name) for c, name in columns.items()}
        rest = [c for c in columns if c not in key]
        same = " AND ".join(f"t.{own[c]} = s.{own[c]}" for c in key)
        later = f" AND s.{own[self._time]} >= t.{own[self._time]}" if self._time in rest else ""
        update = ", ".join(f"{own[c]} = s.{own[c]}" for c in rest)
        return (
            f"MERGE INTO {self.table} AS t USING {self.staging} AS s ON {same} "
            + (f"WHEN MATCHED{later} THEN UPDATE SET {update} " if rest else "")
            + f"WHEN NOT MATCHED THEN INSERT ({', '.join(own.values())}) "
            + f"VALUES ({', '.join(f's.{name}' for name in own.values())})"
        )

    def _columns(self, database: _Database, wanted: Sequence[str]) -> dict[str, str]:
        """The table's name of each column of the results."""
        found = {name.lower(): name for name in database.columns(self.table) or ()}
        missing = [name for name in wanted if name.lower() not in found]
        if missing:
            raise UserError(
                f"the table {self.table} has no column {missing[0]!r}",
                where=self.to.where,
                remedy=f"it has {', '.join(found.values())}",
            )
        return {name: found[name.lower()] for name in wanted}

    @contextmanager
    def _connected(self) -> Iterator[_Database]:
        jvm: Any = self.setting.spark.sparkContext._jvm
        jdbc = jvm.org.apache.spark.sql.execution.datasources.jdbc
        options = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(dict(self.to.options))
        connect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(self.url).createConnectionFactory
        try:
            connection = connect(jdbc.JDBCOptions(options)).apply(-1)
        except Py4JJavaError as error:
            if any(text in str(error) for text in _NO_DRIVER):
                raise UserError(
                    f"Java has no driver for {self.url.split(';')[0][:80]}",
                    where=self.to.where,
                    remedy="add its jar to Spark (`spark.jars` or `spark.jars.packages`)",
                ) from None
            raise
        try:
            yield _Database(connection)
        finally:
            connection.close()


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


@dataclass(frozen=True)
class _Database:
    """A connection of java.sql. Each statement is a transaction of its own."""

    connection: Any

    def run(self, statement: str) -> None:
        made = self.connection.createStatement()
        try:
            made.executeUpdate(statement)
        finally:
            made.close()

    def columns(self, table: str) -> list[str] | None:
        """The columns of a table; None where there is no such table."""
        made = self.connection.createStatement()
        try:
            found = made.executeQuery(f"SELECT * FROM {table} WHERE 1 = 0").getMetaData()
        except Py4JJavaError:
            return None
        else:
            return [found.getColumnName(n + 1) for n in range(found.getColumnCount())]
        finally:
            made.close()
