"""Audits captures with forkscope on a cluster: Spark schedules and shuffles, forkscope extracts, learns and audits.

    spark-submit engines/spark/forkscope_spark.py --out DIR PATH...

1. Extract. A task reads whole captures (`forkscope extract`) and gives their facts as rows.
2. Learn. Facts of whole session partitions are read for what all verdicts rest on (`forkscope learn`); the driver
   concludes from that, and tells which facts have to be together: components.
3. Audit. Facts go by component to tasks that audit them (`forkscope audit --facts -`), whose rows are the tables.

Rows are Arrow all the way. Python hands them on and decides nothing about them. As a module: `audit` and `write`.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import heapq
import ipaddress
import itertools
import json
import os
import re
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import zlib
from dataclasses import dataclass
from typing import IO, Any, Callable, Iterable, Iterator, NamedTuple, Optional, Sequence

import pyarrow as pa
from pyspark import SparkFiles, StorageLevel, TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

AUDITED = ("resumes", "findings", "incidents", "timers", "shares", "servers", "sessions")
"""The tables of an audit."""

LARGE = ("resumes", "findings", "sessions")
"""Those that are written in as many files as come out; of the others each is one file."""

ORDER = {
    "incidents": ["incident"],
    "timers": ["server", "side", "kind", "period_ms"],
    "shares": ["server", "by", "value"],
    "servers": ["server"],
    "inputs": ["input"],
}
"""What the rows of a table in one file are in order of."""

SESSION_PARTITIONS = 4096
"""How many values the column `part` of facts has."""

BATCH_ROWS = 256
"""Exchanges that Spark hands to Python at once: they have their events with them."""

BATCH_BYTES = 16 << 20
"""Bytes of them, where Spark counts those (from version 4 on)."""

TASK_BYTES = 256 << 20
"""Bytes of captures in one task, when they are small: a process for each is started, a task for each is not."""

TASKS_PER_CORE = 4
"""Tasks to make at least, as far as there are captures, so that all cores end at about the same time."""

Batches = Iterator[pa.RecordBatch]


# ---- which captures there are, and which of them belong together ----


class Capture(NamedTuple):
    """A file to be read, or what was named and is none: forkscope says what is wrong with it."""

    path: str
    size: int


def captures(paths: Sequence[str]) -> list[Capture]:
    """The captures that `paths` name, as `forkscope audit` finds them.

    A file is taken as it is named. Folders are searched with all that is below them for captures, by their first
    bytes; links to folders in them are not followed. What is named twice, or by a link as well, is taken once.
    """
    found: dict[tuple[int, int], Capture] = {}
    nowhere: list[Capture] = []

    def take(path: str, status: os.stat_result) -> None:
        found.setdefault((status.st_dev, status.st_ino), Capture(path, status.st_size))

    for path in dict.fromkeys(map(os.path.abspath, paths)):
        if not os.path.isdir(path):
            try:
                take(path, os.stat(path))
            except OSError:
                nowhere.append(Capture(path, 0))
            continue
        before = len(found) + len(nowhere)
        for folder, folders, files in os.walk(path, onerror=lambda why: nowhere.append(Capture(why.filename, 0))):
            folders.sort()
            for file in sorted(files):
                inside = os.path.join(folder, file)
                try:
                    status = os.stat(inside)
                    if stat.S_ISREG(status.st_mode) and is_capture(inside):
                        take(inside, status)
                except FileNotFoundError:
                    continue  # a link to nothing
                except OSError:
                    nowhere.append(Capture(inside, 0))
        if len(found) + len(nowhere) == before:
            nowhere.append(Capture(path, 0))
    return [*found.values(), *nowhere]


HEAD = 4096
MAGICS = tuple(
    bytes.fromhex(magic)
    for number in ("a1b2c3d4", "a1b23c4d", "a1b2cd34")
    for magic in (number, "".join(reversed(re.findall("..", number))))
) + (b"\n\r\r\n",)
ZSTANDARD = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")
HAR = re.compile(rb'\s*\{.*"log"\s*(?:\Z|:\s*(?:\Z|\{))', re.DOTALL)


def is_capture(path: str) -> bool:
    """Whether a file is a capture by its first bytes, unpacked: pcap, pcapng or HAR.

    Python has no Zstandard before 3.14, so that whatever is packed by that is taken for one.
    """
    with open(path, "rb") as file:
        head = file.read(HEAD)
    if ZSTANDARD.match(head):
        return True
    if head[:3] == b"\x1f\x8b\x08" or head[:2] in (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda"):
        try:
            head = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32).decompress(head, HEAD)
        except zlib.error:
            return False
    if head.startswith(MAGICS):
        return True
    if head[:2] in (b"\xff\xfe", b"\xfe\xff") or 0 in head[:2]:
        # UTF-16, with a mark or without: what matters is ASCII.
        head = head.replace(b"\0", b"").lstrip(b"\xff\xfe")
    return HAR.match(head.removeprefix(b"\xef\xbb\xbf")) is not None


def ring(path: str) -> Optional[tuple[str, ...]]:
    """What files that one capture wrote in turn have in common in their names; none when this is no name of such.

    dumpcap's and editcap's `NAME_NNNNN_TIME.EXT`, `NAME.EXTN` of tcpdump's `-C`, whose first file has no number, and
    any name with a last number of three digits or more.
    """
    folder, file = os.path.split(path)
    if match := re.fullmatch(r"([^.]*)_([0-9]{5,})_[0-9]{14}(\..*)?", file, re.DOTALL):
        if int(match[2]) < 1 << 64:
            return folder, match[1]
    bare = re.sub(r"(\.zst)*$", "", re.sub(r"(\.gz)*$", "", file))
    tcpdump = re.fullmatch(r"(.*\.pcap|.*\.cap)([0-9]*)", bare, re.DOTALL)
    if tcpdump and 0 < int(tcpdump[2] or 0) < 1 << 64:
        return folder, tcpdump[1]
    if match := re.fullmatch(r"(.*?)([0-9]{3,})([^0-9]*)", file, re.DOTALL):
        if int(match[2]) < 1 << 64:
            return folder, match[1], match[3]
    return (folder, tcpdump[1]) if tcpdump and int(tcpdump[2] or 0) == 0 else None


def groups(found: Iterable[Capture], apart: bool) -> list[list[Capture]]:
    """The captures that one process reads together: files of one ring, as a connection may run over them."""
    together: dict[Any, list[Capture]] = {}
    for capture in found:
        key = None if apart else ring(capture.path)
        together.setdefault((key, None) if key else (None, capture.path), []).append(capture)
    return list(together.values())


def tasks(work: Iterable[list[Capture]], cores: int) -> list[list[list[str]]]:
    """The groups that each task reads, one after another. Large ones come first, and each into the lightest task."""

    def weight(group: list[Capture]) -> int:
        return sum(capture.size for capture in group)

    heavy_first = sorted(work, key=weight, reverse=True)
    total = sum(map(weight, heavy_first))
    count = min(len(heavy_first), max(cores * TASKS_PER_CORE, -(-total // TASK_BYTES)))
    dealt: list[list[list[str]]] = [[] for _ in range(count)]
    lightest = [(0, 0, index) for index in range(count)]
    for group in heavy_first:
        bytes_so_far, files, index = heapq.heappop(lightest)
        dealt[index].append([capture.path for capture in group])
        heapq.heappush(lightest, (bytes_so_far + weight(group), files + len(group), index))
    return dealt


# ---- a process of forkscope ----


@dataclass(frozen=True)
class Forkscope:
    """How forkscope is called, on whichever machine."""

    name: str
    extract: tuple[str, ...] = ()
    audit: tuple[str, ...] = ()

    def path(self) -> str:
        """The binary: a path, a file that was shipped with `--files`, or what is found on the PATH."""
        if os.path.dirname(self.name):
            return self.name
        shipped = SparkFiles.get(self.name)
        return shipped if os.path.isfile(shipped) else shutil.which(self.name) or self.name

    @contextlib.contextmanager
    def run(
        self, *arguments: str, feed: Optional[Callable[[IO[bytes]], None]] = None, learnt: Optional[bytes] = None
    ) -> Iterator[Ran]:
        """Runs it to its end; what it wrote is there within the context.

        `feed` writes to its standard input. What it says goes to files without a name, which are gone with this process
        however it ends; so no pipe fills up while nobody reads it, and nothing is taken from a run that fails later.
        """
        command = [self.path(), *arguments]
        with spool() as out, spool() as err, spool() as file:
            if learnt is not None:
                file.write(learnt)
                file.seek(0)
                command += ["--learnt", f"/dev/fd/{file.fileno()}"]
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if feed else subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                pass_fds=[file.fileno()],
                preexec_fn=_end_with_parent(),
            )
            fed = True
            try:
                if feed and process.stdin:
                    try:
                        with process.stdin as stdin:
                            feed(stdin)
                    except BrokenPipeError:
                        fed = False
                code = process.wait()
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
            err.seek(0)
            yield Ran(command, code, fed, out, err.read().decode(errors="replace").strip())


@dataclass(frozen=True)
class Ran:
    """A process that has ended."""

    command: list[str]
    code: int
    fed: bool
    out: IO[bytes]
    err: str

    def is_whole(self) -> bool:
        """Whether it wrote a stream of Arrow up to the mark of its end."""
        length = self.out.seek(0, os.SEEK_END)
        self.out.seek(max(0, length - len(END_OF_STREAM)))
        return self.out.read() == END_OF_STREAM

    def stream(self) -> pa.RecordBatchReader:
        """What it wrote, as a stream of Arrow."""
        self.out.seek(0)
        return pa.ipc.open_stream(self.out)

    def why(self) -> str:
        """How it ended, in words."""
        if self.code < 0:
            how = f"died of {signal.Signals(-self.code).name}"
        elif self.code in (0, 1, 2) and not self.fed:
            how = f"ended with {self.code} before it had read everything"
        else:
            how = f"ended with {self.code}"
        return f"forkscope {self.command[1]} {how}" + (f": {self.err[-2000:]}" if self.err else "")

    def text(self, codes: Sequence[int] = (0,)) -> bytes:
        """What it wrote.

        Raises:
            ForkscopeError: It failed.
        """
        if self.code not in codes or not self.fed:
            raise ForkscopeError(self.why())
        self.out.seek(0)
        return self.out.read()


class ForkscopeError(RuntimeError):
    """forkscope failed, and the machine or the call is to blame, not a capture."""


END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"


def spool() -> IO[bytes]:
    """A temporary file without a name, where Spark keeps its own."""
    folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return tempfile.TemporaryFile(dir=folder if os.path.isdir(folder) else None)


def _end_with_parent() -> Optional[Callable[[], object]]:
    """Has a process killed when the one that started it is: a task may be, and nothing is left to work on for nobody."""
    if sys.platform != "linux":
        return None
    prctl, set_death_signal = ctypes.CDLL(None).prctl, 1
    return lambda: prctl(set_death_signal, signal.SIGKILL)


# ---- rows ----


def plain(kind: pa.DataType, bytes_too: bool = True) -> pa.DataType:
    """A type as Spark has it: nothing in it is without nulls, and with `bytes_too` no bytes are of a fixed number."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, plain(field.type, bytes_too)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", plain(kind.value_type, bytes_too)))
    if pa.types.is_fixed_size_binary(kind) and bytes_too:
        return pa.binary()
    return kind


def plain_schema(schema: pa.Schema, bytes_too: bool = True) -> pa.Schema:
    """`plain` of each column."""
    return pa.schema([pa.field(field.name, plain(field.type, bytes_too)) for field in schema])


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of `schema`, in its types."""
    columns = [batch.column(batch.schema.get_field_index(field.name)).cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@dataclass(frozen=True)
class Shapes:
    """What rows look like: facts as forkscope reads them and as Spark keeps them, and rows of an audit."""

    wire: pa.Schema
    facts: pa.Schema
    audited: pa.Schema

    @classmethod
    def of(cls, forkscope: Forkscope) -> Shapes:
        """Asks forkscope itself, with a capture that has no packets. Options that it does not take are told here."""
        with tempfile.NamedTemporaryFile(suffix=".pcap") as file:
            file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
            file.flush()
            with forkscope.run("extract", *forkscope.extract, "-o", "-", file.name) as ran:
                rows = ran.text()
                if not ran.is_whole():
                    raise ForkscopeError(f"{ran.why()}: no whole stream of facts")
                facts = ran.stream().schema

        def feed(to: IO[bytes]) -> None:
            to.write(rows)

        with forkscope.run("learn", "--facts", "-", feed=feed) as ran:
            learnt = ran.text()
        with forkscope.run("learn", learnt=learnt) as ran:
            concluded = ran.text()
        with forkscope.run("audit", *forkscope.audit, "--facts", "-", feed=feed, learnt=concluded) as ran:
            ran.text(codes=(0, 1))
            rows_of_audit = ran.stream().schema
        return cls(plain_schema(facts, bytes_too=False), plain_schema(facts), plain_schema(rows_of_audit))


def feeder(shapes: Shapes, whole: Sequence[bytes], rows: Iterable[pa.RecordBatch]) -> Callable[[IO[bytes]], None]:
    """Writes facts to a process: first those that all processes get, then its own."""

    def feed(to: IO[bytes]) -> None:
        with pa.ipc.new_stream(to, shapes.wire) as stream:
            for stored in whole:
                for batch in pa.ipc.open_stream(stored):
                    stream.write_batch(batch)
            for batch in rows:
                stream.write_batch(conform(batch, shapes.wire))

    return feed


# ---- what tasks do ----

OF_CAPTURES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP}
PANIC = 101


def extract(forkscope: Forkscope, work: Sequence[Sequence[str]], shapes: Shapes, patience: int) -> Batches:
    """The facts of captures, group by group.

    A group on which forkscope dies is read again file by file; a file on which it dies is one row, of a table of its
    own, `died`.

    Raises:
        ForkscopeError: It looks like the machine's fault, and the task was not tried `patience` times yet.
    """
    for files in work:
        with forkscope.run("extract", *forkscope.extract, "-o", "-", "--", *files) as ran:
            if ran.code in (0, 2) and ran.is_whole():
                for batch in ran.stream():
                    yield conform(batch, shapes.facts)
                continue
        context = TaskContext.get()
        of_capture = ran.code == PANIC or -ran.code in OF_CAPTURES
        # Names of files are bytes, and perhaps none of UTF-8.
        names = [file.encode(errors="replace").decode() for file in files]
        if not of_capture and context is not None and context.attemptNumber() < patience:
            raise ForkscopeError(f"cannot read {', '.join(names)}: {ran.why()}")
        if len(files) > 1:
            yield from extract(forkscope, [[file] for file in files], shapes, patience)
        else:
            (name,) = names
            why = {"text": f"cannot read {name}: {ran.why()}", "names": []}
            row = {"table": "died", "input": {"name": name, "unreadable": why}, "events": []}
            yield pa.RecordBatch.from_pylist([row], schema=shapes.facts)


def learn(forkscope: Forkscope, rows: Batches, shapes: Shapes, whole: Sequence[bytes]) -> Batches:
    """What forkscope learns from rows of whole session partitions."""
    first = next((batch for batch in rows if batch.num_rows), None)
    if first is None:
        return
    with forkscope.run("learn", "--facts", "-", feed=feeder(shapes, whole, itertools.chain([first], rows))) as ran:
        learnt = ran.text()
    yield pa.RecordBatch.from_pydict({"learnt": [learnt]})


def audited(forkscope: Forkscope, rows: Batches, shapes: Shapes, whole: Sequence[bytes], concluded: bytes) -> Batches:
    """The rows of the audit of whole components, with a number of the process, in which incidents are numbered.

    That number is the least component, which is in no other process; so it is the same when a task is done again.
    """
    first = next((batch for batch in rows if batch.num_rows), None)
    if first is None:
        return
    components: list[int] = []

    def told(batches: Batches) -> Batches:
        for batch in batches:
            column = batch.column(batch.schema.get_field_index("component"))
            if column.null_count:
                raise ForkscopeError("forkscope learn told no component of some key")
            components.extend(column.unique().to_pylist())
            yield batch

    feed = feeder(shapes, whole, told(itertools.chain([first], rows)))
    with forkscope.run("audit", *forkscope.audit, "--facts", "-", feed=feed, learnt=concluded) as ran:
        if ran.code not in (0, 1) or not ran.fed or not ran.is_whole():
            raise ForkscopeError(ran.why())
        process = pa.scalar(min(components), pa.int64())
        for batch in ran.stream():
            columns = [pa.repeat(process, batch.num_rows), *conform(batch, shapes.audited).columns]
            yield pa.RecordBatch.from_arrays(columns, names=["process", *shapes.audited.names])


# ---- the job ----


def audit(
    spark: SparkSession,
    paths: Sequence[str],
    *,
    forkscope: str = "forkscope",
    facts: Optional[str] = None,
    partitions: Optional[int] = None,
    window: Optional[str] = None,
    apart: bool = False,
    key_logs: Sequence[str] = (),
) -> dict[str, DataFrame]:
    """The tables of an audit of the captures that `paths` name: those of AUDITED, and `inputs`.

    What is read more than once is persisted until `spark` stops, or with `facts`, facts are written to that folder.

    Raises:
        ForkscopeError: forkscope cannot be run on the driver. On executors that fails the job as Spark's exception.
    """
    context = spark.sparkContext
    if __name__ != "__main__":
        context.addPyFile(__file__)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(BATCH_ROWS))
    spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(BATCH_BYTES))
    jobs = ("--jobs", str(spark.conf.get("spark.task.cpus", "1")))
    key_log_options = tuple(itertools.chain.from_iterable(("--keylog", os.path.abspath(log)) for log in key_logs))
    call = Forkscope(forkscope, ("-q", *jobs, *key_log_options), ("--window", window) if window else ())
    shapes = Shapes.of(call)
    cores = context.defaultParallelism
    count = partitions or cores * TASKS_PER_CORE

    read = facts_of(spark, call, shapes, tasks(groups(captures(paths), apart), cores))
    if facts is None:
        read = read.persist(StorageLevel.MEMORY_AND_DISK)
    else:
        read.write.parquet(facts)
        read = spark.read.schema(from_arrow_schema(shapes.facts)).parquet(facts)

    # What all processes get, as they get it: a row a run and a row an input.
    def stored(rows: Batches) -> Batches:
        for batch in rows:
            if batch.num_rows:
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, shapes.wire) as stream:
                    stream.write_batch(conform(batch, shapes.wire))
                yield pa.RecordBatch.from_pydict({"rows": [sink.getvalue().to_pybytes()]})

    whole_rows = read.where(F.col("table").isin("runs", "inputs")).mapInArrow(stored, "rows binary").collect()
    whole = context.broadcast([bytes(row["rows"]) for row in whole_rows])

    exchanges = read.where(F.col("table") == "exchanges")
    # By range, here and below: values are few, and many of them would share a task by their hashes.
    by_session = exchanges.repartitionByRange(min(SESSION_PARTITIONS, count), "part")
    learnt_rows = by_session.mapInArrow(lambda rows: learn(call, rows, shapes, whole.value), "learnt binary").collect()
    concluded, components = conclude(call, [bytes(row["learnt"]) for row in learnt_rows])
    known = context.broadcast(concluded)

    of_keys = spark.createDataFrame(list(components.items()), "key string, component bigint")
    by_component = (
        exchanges.join(F.broadcast(of_keys), "key", "left")
        .select(*shapes.facts.names, "component")
        .repartitionByRange(count, "component")
    )
    rows = by_component.mapInArrow(
        lambda rows: audited(call, rows, shapes, whole.value, known.value),
        from_arrow_schema(shapes.audited.insert(0, pa.field("process", pa.int64()))),
    ).persist(StorageLevel.MEMORY_AND_DISK)
    tables = {table: rows.where(F.col("table") == table).select("process", f"{table}.*") for table in AUDITED}
    tables |= numbered(spark, tables["incidents"], tables["resumes"])
    tables = {table: of.drop("process") for table, of in tables.items()}
    return tables | {"inputs": inputs_of(read)}


def facts_of(spark: SparkSession, forkscope: Forkscope, shapes: Shapes, work: list[list[list[str]]]) -> DataFrame:
    """The facts of captures: a task each for the groups in `work`."""
    # Within a cluster a task is tried again on another machine, and the last try takes what came of it.
    is_local = str(spark.sparkContext.master).partition("[")[0] == "local"
    tries = 1 if is_local else int(str(spark.conf.get("spark.task.maxFailures", "4")))
    todo = spark.sparkContext.broadcast(work)

    def read(numbers: Batches) -> Batches:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from extract(forkscope, todo.value[number], shapes, max(0, tries - 2))

    return spark.range(0, len(work), 1, max(1, len(work))).mapInArrow(read, from_arrow_schema(shapes.facts))


def conclude(forkscope: Forkscope, learnt: Sequence[bytes]) -> tuple[bytes, dict[str, int]]:
    """What all that was learnt comes to, and the component of each key."""
    if not learnt:
        return b"", {}
    with forkscope.run("learn", learnt=b"".join(learnt)) as ran:
        concluded = ran.text()
    components: dict[str, int] = {}
    for line in concluded.splitlines():
        said = json.loads(line)
        if "component" in said:
            for key in said["keys"]:
                if components.setdefault(key, said["component"]) != said["component"]:
                    raise ForkscopeError(f"forkscope learn put {key} into two components")
    return concluded, components


def numbered(spark: SparkSession, incidents: DataFrame, resumes: DataFrame) -> dict[str, DataFrame]:
    """Both tables with incidents numbered over all processes: in order of time, then of the server."""
    found = incidents.select("start_time", "server", "process", "incident").collect()
    # Without its Z a time without nanoseconds comes before those with them.
    found.sort(key=lambda row: (row["start_time"].rstrip("Z"), server_order(row["server"]), *row[2:]))
    numbers = [(row["process"], row["incident"], number) for number, row in enumerate(found, 1)]
    of = F.broadcast(spark.createDataFrame(numbers, "process bigint, incident bigint, number bigint"))

    def renumber(table: DataFrame) -> DataFrame:
        new = {"incident": F.col("number").alias("incident")}
        return table.join(of, ["process", "incident"], "left").select(*(new.get(name, name) for name in table.columns))

    return {"incidents": renumber(incidents), "resumes": renumber(resumes)}


def server_order(server: str) -> tuple[Any, ...]:
    """What servers are in order of: addresses before names, of version 4 before 6, then the port."""
    host, _, port = server.rpartition(":")
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return 1, 0, 0, host, int(port)
    return 0, address.version, int(address), "", int(port)


def inputs_of(facts: DataFrame) -> DataFrame:
    """The inputs, with the columns of `inputs.csv` but for those that count sessions, exchanges and events."""
    read = facts.where(F.col("table").isin("inputs", "died")).select("input.*")
    return read.select(
        F.col("name").alias("input"),
        F.coalesce("format", F.lit("")).alias("format"),
        F.coalesce(F.array_join("link_types", ";"), F.lit("")).alias("link_types"),
        "packets",
        "bytes",
        time_text("first_time").alias("first_time"),
        time_text("last_time").alias("last_time"),
        "tcp_connections",
        "tls_opaque",
        "holes",
        "hole_bytes",
        "truncated_packets",
        F.expr("coalesce(unreadable.text, nullif(damaged.text, ''))").alias("damaged"),
    )


def time_text(column: str) -> Any:
    """Nanoseconds since 1970 as RFC 3339, with six decimals, or nine where there is something below a microsecond.

    By hand: Spark's timestamps have no nanoseconds, and are shown in the time zone of the session.
    """
    day, second = 86_400_000_000_000, 1_000_000_000
    return F.expr(
        f"if({column} is null, null, format_string('%sT%02d:%02d:%02d.%sZ',"
        f" string(date_add(date'1970-01-01', int(({column} - pmod({column}, {day})) div {day}))),"
        f" pmod({column}, {day}) div {3600 * second},"
        f" pmod({column}, {3600 * second}) div {60 * second},"
        f" pmod({column}, {60 * second}) div {second},"
        f" regexp_replace(lpad(pmod({column}, {second}), 9, '0'), '000$', '')))"
    )


def write(tables: dict[str, DataFrame], out: str) -> None:
    """Writes each table to OUT/parquet/NAME and OUT/csv/NAME, and the small ones in one file each, in order."""
    for name, table in tables.items():
        if name not in LARGE:
            table = table.repartition(1).sortWithinPartitions(*ORDER[name])
        table.write.parquet(f"{out}/parquet/{name}")
        table.select(*map(cell, table.schema)).write.csv(
            f"{out}/csv/{name}",
            header=True,
            escape='"',
            emptyValue="",
            ignoreLeadingWhiteSpace=False,
            ignoreTrailingWhiteSpace=False,
        )


def cell(field: Any) -> Any:
    """A column as CSV has it: what spreadsheets would run as a formula, and is no number, has a `'` in front."""
    column = F.col(f"`{field.name}`")
    if field.dataType.typeName() != "string":
        return column
    formula = column.rlike(r"^[=+\-@\t\r]") & ~column.rlike(r"^[+-]?[0-9]+(\.[0-9]+)?$")
    return F.when(formula, F.concat(F.lit("'"), column)).otherwise(column).alias(field.name)


def is_there(spark: SparkSession, path: str) -> bool:
    """Whether there is such a file or folder, on whichever file system Spark writes to."""
    java: Any = spark.sparkContext._jvm
    hadoop = java.org.apache.hadoop.fs.Path(path)
    return hadoop.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).exists(hadoop)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    line = argparse.ArgumentParser(
        prog="forkscope_spark.py", description="Audits captures with forkscope on a cluster."
    )
    line.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="captures and folders of them, on a file system that the driver and all executors see under the same path",
    )
    line.add_argument(
        "--out",
        required=True,
        metavar="DIR",
        help="where the tables go: DIR/parquet/NAME and DIR/csv/NAME, which must not be there yet",
    )
    line.add_argument(
        "--forkscope",
        default="forkscope",
        metavar="PATH",
        help="the binary, under this path on every node, or the name of one that --files ships (default: %(default)s)",
    )
    line.add_argument(
        "--facts",
        metavar="DIR",
        help="write the facts to DIR, as Parquet, and read them back, instead of holding them on the executors",
    )
    line.add_argument("--partitions", type=int, metavar="N", help="tasks of the audit (default: four a core)")
    line.add_argument("--window", metavar="DUR", help="as of forkscope audit: how far apart cuts of one incident may be")
    line.add_argument(
        "--apart", action="store_true", help="read each file by itself, files of one rotated capture too"
    )
    line.add_argument(
        "--keylog", action="append", default=[], metavar="FILE", help="TLS secrets, seen by all executors; repeatable"
    )
    return line


def main() -> None:
    """Runs the job from the command line."""
    line = parser()
    options = line.parse_args()
    spark = SparkSession.builder.appName("forkscope").getOrCreate()
    try:
        for folder in (f"{options.out}/parquet", f"{options.out}/csv", options.facts):
            if folder and is_there(spark, folder):
                line.error(f"{folder} is there already")
        tables = audit(
            spark,
            options.paths,
            forkscope=options.forkscope,
            facts=options.facts,
            partitions=options.partitions,
            window=options.window,
            apart=options.apart,
            key_logs=options.keylog,
        )
        write(tables, options.out)
        inputs = spark.read.parquet(f"{options.out}/parquet/inputs")
        damaged = inputs.where("damaged is not null").count()
        if damaged:
            print(f"forkscope: {damaged} of {inputs.count()} inputs are damaged or not readable", file=sys.stderr)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
