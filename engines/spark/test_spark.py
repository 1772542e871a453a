"""The job on a cluster of two executors, held to what `forkscope audit` says on one machine.

    FORKSCOPE=target/release/forkscope FORKSCOPE_CAPTURES=fixtures/real python engines/spark/test_spark.py
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import unittest
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence

import pyarrow.parquet as parquet

sys.path.insert(0, str(Path(__file__).resolve().parent))

import forkscope_spark as job
import pyspark
from pyspark.sql import SparkSession

FORKSCOPE = os.path.abspath(os.environ["FORKSCOPE"])
CAPTURES = os.path.abspath(os.environ["FORKSCOPE_CAPTURES"])

Row = Mapping[str, Any]

HOLDS = """#!/bin/sh
# forkscope; but on executors, where a file has the name of its command, who takes that tells its process and waits.
if [ -n "$ON_EXECUTOR" ] && mv '{folder}'/"$1" '{folder}'/taken 2>/dev/null; then
    echo $$ >'{folder}/who'
    read -r _ <'{folder}/never'
fi
exec '{forkscope}' "$@"
"""

DIES = """#!/bin/sh
# forkscope; but it dies of a capture of some name.
case "$*" in *extract*poison*) kill -SEGV $$ ;; esac
exec '{forkscope}' "$@"
"""


def script(path: Path, text: str, **names: object) -> str:
    """Writes something that can be run in place of forkscope."""
    path.write_text(text.format(forkscope=FORKSCOPE, **names))
    path.chmod(0o755)
    return str(path)


def cell(value: Any) -> Any:
    """A value as both sides have it: what is not known is empty, lists are joined, and numbers are numbers."""
    if value is None:
        return ""
    if isinstance(value, list):
        return ";".join(map(str, value))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return round(float(value), 6)
    return value


def bag(rows: Iterable[Row], columns: Iterable[str]) -> Counter[tuple[Any, ...]]:
    """Rows in no order, by those columns."""
    columns = list(columns)
    return Counter(tuple(cell(row[column]) for column in columns) for row in rows)


def report(folder: Path) -> dict[str, list[Row]]:
    """The tables of an audit on one machine."""
    whole = json.loads((folder / "report.json").read_text())
    within = [*whole["sessions"], whole["outside_sessions"]]

    def session(row: Row) -> Row:
        # What is nested there is counted in the table, and codes are listed once each, worst first.
        worst_first = ("fork", "loss", "warning", "info")
        worst: dict[str, int] = {}
        for finding in row["findings"]:
            rank = worst_first.index(finding["severity"])
            worst[finding["code"]] = min(rank, worst.get(finding["code"], rank))
        codes = sorted(worst, key=lambda code: (worst[code], code))
        return {**row, "segments": len(row["segments"]), "resumes": len(row["resumes"]), "findings": codes}

    def captured(row: Row) -> Row:
        # Of inputs, times are there as they were put right, and facts have them as captured.
        ahead, times = row["clock_offset_ms"] or 0, ("first_time", "last_time")
        return {**row, **{name: row[name] and before(row[name], ahead) for name in times}}

    return {
        "resumes": [row for session in within for row in session["resumes"]],
        "findings": [row for session in within for row in session["findings"]],
        "sessions": [session(row) for row in whole["sessions"]],
        "inputs": [captured(row) for row in whole["inputs"]],
        **{table: whole[table] for table in ("incidents", "timers", "shares", "servers")},
    }


def before(time: str, milliseconds: float) -> str:
    """A time some milliseconds earlier."""
    seconds, _, fraction = time.rstrip("Z").partition(".")
    nanoseconds = int(fraction.ljust(9, "0")) - round(milliseconds * 1e6)
    moment = datetime.fromisoformat(seconds) + timedelta(seconds=nanoseconds // 10**9)
    return f"{moment.isoformat()}.{nanoseconds % 10**9:09}".removesuffix("000") + "Z"


def columns_of(folder: Path, table: str) -> list[str]:
    """The columns of a table."""
    with open(folder / f"{table}.csv", newline="") as file:
        return next(csv.reader(file))


def parents(pid: int) -> Iterable[tuple[int, list[str]]]:
    """A process and those above it, each with its command line."""
    while pid > 1:
        yield pid, Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def run(*codes: int) -> Callable[..., None]:
    """Runs forkscope, which is to end with one of those codes."""

    def call(*arguments: object) -> None:
        done = subprocess.run([FORKSCOPE, *map(str, arguments)], check=False, stderr=subprocess.PIPE, text=True)
        if done.returncode not in codes:
            raise AssertionError(f"{arguments}: {done.returncode}: {done.stderr}")

    return call


def one_machine(inputs: Path, out: Path) -> Expected:
    """What an audit on one machine says."""
    run(0, 1, 2)("audit", "-q", "-o", out, inputs)
    tables = report(out)
    return Expected(tables, {table: columns_of(out, table) for table in tables})


class Expected(NamedTuple):
    """Tables, and their columns."""

    tables: Mapping[str, Sequence[Row]]
    columns: Mapping[str, Sequence[str]]


def processes(word: str) -> list[int]:
    """The processes with a word in their command lines."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word in line.read_text().split("\0"):
                found.append(int(line.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def has_ended(process: int, within: float) -> bool:
    """Whether a process, by a handle of it, ends in some seconds."""
    return bool(select.select([process], [], [], within)[0])


class Killer(threading.Thread):
    """Kills the executor that runs forkscope, once for each of some commands, while forkscope runs."""

    def __init__(self, folder: Path, commands: Iterable[str]) -> None:
        super().__init__(daemon=True)
        self.folder, self.commands = folder, list(commands)
        self.killed: list[str] = []
        self.outlived: list[int] = []

    def run(self) -> None:
        for command in self.commands:
            (self.folder / command).touch()
            pid = int((self.folder / "who").read_text())
            handle = os.pidfd_open(pid)
            try:
                executor, line = next(
                    (above, line)
                    for above, line in parents(pid)
                    if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in line
                )
                os.kill(executor, signal.SIGKILL)
                self.killed.append(line[line.index("--executor-id") + 1])
                if not has_ended(handle, 30):
                    self.outlived.append(pid)
            finally:
                # Whatever went wrong, nobody waits for it any longer.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                os.close(handle)


class Names(unittest.TestCase):
    """What names of files tell."""

    def test_files_of_one_ring_are_read_together(self) -> None:
        for name, stem in (
            ("/a/run_00012_20251009085320.pcapng", ("/a", "run")),
            ("/run_100000_20251009085320.pcap.gz", ("/", "run")),
            ("/x.pcap", ("/", "x.pcap")),
            ("/dir.d/x.pcap17", ("/dir.d", "x.pcap")),
            ("/x.cap3", ("/", "x.cap")),
            ("/x.pcap2.gz", ("/", "x.pcap")),
            ("/d1/part0041.pcap", ("/d1", "part", ".pcap")),
            ("/n1-007-é.har", ("/", "n1-", "-é.har")),
            ("/run_12_20251009085320.log", ("/", "run_12_", ".log")),
            ("/run2", None),
            ("/ts01.har", None),
            ("/x.pcapng", None),
            ("/é.pcapä", None),
            ("/99999999999999999999999", None),
        ):
            self.assertEqual(job.ring(name), stem, name)

    def test_tasks_have_whole_groups(self) -> None:
        files = [job.Capture(f"/a_{n:05}_20260101000000.pcap", 10) for n in range(3)]
        files += [job.Capture(f"/{name}.har", size) for name, size in (("b", 25), ("c", 4), ("d", 1))]
        together = job.groups(files, apart=False)
        self.assertEqual([len(group) for group in together], [3, 1, 1, 1])
        self.assertEqual(len(job.groups(files, apart=True)), 6)
        self.assertEqual(
            [[len(group) for group in task] for task in job.tasks(together, cores=1)],
            [[3], [1], [1], [1]],
        )
        self.assertEqual(job.tasks([], cores=1), [])

    def test_servers_are_in_order_of_addresses_before_names(self) -> None:
        servers = ["9.0.0.1:80", "10.0.0.1:9", "10.0.0.1:80", "[::2]:1", "[::10]:1", "a.example:1", "b.example:1"]
        self.assertEqual(sorted(reversed(servers), key=job.server_order), servers)


class Deaths(unittest.TestCase):
    """A capture on which forkscope dies."""

    def test_it_costs_its_own_file_alone(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            good = sorted(Path(CAPTURES).glob("*.pcap"))[0]
            files = [os.path.join(folder, f"{name}.pcap") for name in ("good", "poison")]
            for file in files:
                shutil.copy(good, file)
            call = job.Forkscope(script(Path(folder, "dies"), DIES), ("-q",))
            shapes = job.Shapes.of(call)
            rows = [row for batch in job.extract(call, [files], shapes, patience=2) for row in batch.to_pylist()]
            tables = Counter(row["table"] for row in rows)
            self.assertEqual((tables["runs"], tables["inputs"], tables["died"]), (1, 1, 1))
            self.assertGreater(tables["exchanges"], 0)
            of_poison = next(row["input"] for row in rows if row["table"] == "died")
            self.assertEqual(of_poison["name"], files[1])
            self.assertIn("SIGSEGV", of_poison["unreadable"]["text"])

    def test_a_name_that_is_no_text_is_a_row(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, os.fsdecode(b"\xff.pcap"))
            Path(file).touch()
            call = job.Forkscope(FORKSCOPE, ("-q",))
            (rows,) = job.extract(call, [[file]], job.Shapes.of(call), patience=2)
            self.assertEqual([row["input"]["name"] for row in rows.to_pylist()], [f"{folder}/?.pcap"])


class OnACluster(unittest.TestCase):
    """All captures, by the job and on one machine."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        odd = cls.folder / "odd"
        odd.mkdir()
        some = sorted(Path(CAPTURES).glob("*.pcap"))[0].read_bytes()
        (odd / "cut.pcap").write_bytes(some[: 24 + 16 + 20])
        (odd / "empty.pcap").touch()
        (odd / "notes.txt").write_text("tcpdump -w cut.pcap, until the disk was full\n")
        cls.odd = sorted(map(str, odd.iterdir()))
        cls.paths = [CAPTURES, *cls.odd]

        # What is extracted together is: a group of files, as tasks have them.
        facts = cls.folder / "facts-of-groups"
        for group in job.groups(job.captures(cls.paths), apart=False):
            run(0, 2)("extract", "-q", "-o", facts, *(capture.path for capture in group))
        cls.of_groups = one_machine(facts, cls.folder / "of-groups")

        # All captures as files of one ring, which are one group.
        cls.ring = cls.folder / "ring"
        cls.ring.mkdir()
        for number, capture in enumerate(job.captures([CAPTURES]), 1):
            os.symlink(capture.path, cls.ring / f"all_{number:05}_20260101000000.pcap")
        cls.of_ring = one_machine(cls.ring, cls.folder / "of-ring")

        hold = cls.folder / "hold"
        hold.mkdir()
        for fifo in ("who", "never"):
            os.mkfifo(hold / fifo)
        cls.hold = hold
        cls.forkscope = script(cls.folder / "forkscope-held", HOLDS, folder=hold)

        os.environ["PYSPARK_PYTHON"] = sys.executable
        local = cls.folder / "local"
        local.mkdir()
        cls.spark = (
            SparkSession.builder.master("local-cluster[2,1,1024]")
            .appName("forkscope-test")
            .config("spark.executor.memory", "1g")
            .config("spark.executorEnv.ON_EXECUTOR", "yes")
            # Rows are few: compiling for speed would take most of the time.
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
            .config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1")
            .config("spark.sql.codegen.wholeStage", "false")
            .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.local.dir", str(local))
            .config("spark.sql.warehouse.dir", str(cls.folder / "warehouse"))
            .getOrCreate()
        )
        cls.spark.sparkContext.setLogLevel("ERROR")
        cls.addClassCleanup(cls.stop)

    @classmethod
    def stop(cls) -> None:
        """Stops Spark, and sees that nothing of it is left."""
        application = cls.spark.sparkContext.applicationId
        executors = [(pid, os.pidfd_open(pid)) for pid in processes(application)]
        cls.spark.stop()
        left = [pid for pid, handle in executors if not has_ended(handle, 30)]
        for _, handle in executors:
            os.close(handle)
        # Logs of the workers, which are where Spark is.
        home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
        shutil.rmtree(Path(home, "work", application), ignore_errors=True)
        if left or processes(cls.forkscope):
            raise AssertionError(f"processes are left: {left or processes(cls.forkscope)}")

    def assert_same(self, tables: Mapping[str, Sequence[Row]], expected: Expected) -> None:
        """Holds all tables to those of one machine."""
        self.assertEqual(set(tables), set(expected.tables))
        for table, rows in tables.items():
            with self.subTest(table):
                self.assertGreater(len(rows), 0)
                columns = expected.columns[table]
                if table == "inputs":
                    # What is counted of sessions is not there.
                    columns = [column for column in columns if column in rows[0]]
                    self.assertEqual(len(columns), len(rows[0]))
                here, there = bag(rows, columns), bag(expected.tables[table], columns)
                differ = [*(("job", row) for row in here - there), *(("one machine", row) for row in there - here)]
                self.assertEqual(sorted(differ, key=str), [], columns)

    def tables(self, paths: Sequence[str]) -> dict[str, list[Row]]:
        """What the job says."""
        tables = job.audit(self.spark, paths, forkscope=self.forkscope)
        return {table: [row.asDict() for row in of.collect()] for table, of in tables.items()}

    def test_1_says_of_facts_what_one_machine_says_of_them(self) -> None:
        out, facts = self.folder / "out", self.folder / "facts"
        job.write(job.audit(self.spark, self.paths, forkscope=self.forkscope, facts=str(facts)), str(out))
        tables = {folder.name: parquet.read_table(folder).to_pylist() for folder in (out / "parquet").iterdir()}
        self.assert_same(tables, self.of_groups)
        for table, rows in tables.items():
            files = sorted((out / "csv" / table).glob("*.csv"))
            if table not in job.LARGE:
                self.assertEqual(len(files), 1, table)
            lines = [line for file in files for line in csv.DictReader(file.read_text().splitlines(True))]
            self.assertEqual(len(lines), len(rows), table)
        by_name = {row["input"]: row["damaged"] for row in tables["inputs"]}
        for path in self.odd:
            self.assertTrue(by_name[path], path)
        numbers = [row["incident"] for row in tables["incidents"]]
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)))

    def test_2_says_the_same_when_executors_are_killed(self) -> None:
        killer = Killer(self.hold, ("extract", "audit"))
        killer.start()
        tables = self.tables(self.paths)
        killer.join(30)
        self.assertEqual(len(killer.killed), 2, "executors were killed")
        self.assertEqual(killer.outlived, [], "forkscope ended with its executor")
        known = self.spark.sparkContext._jsc.sc().statusStore().executorList(False)
        lost = {known.apply(n).id() for n in range(known.size()) if not known.apply(n).isActive()}
        self.assertLessEqual(set(killer.killed), lost, "Spark lost those executors")
        self.assert_same(tables, self.of_groups)

    def test_3_says_of_one_group_what_one_machine_says_of_its_captures(self) -> None:
        self.assert_same(self.tables([str(self.ring)]), self.of_ring)


if __name__ == "__main__":
    unittest.main(verbosity=2)
