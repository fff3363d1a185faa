"""A question over 10,000 runs of 100 phases, and the list of them, against plain programs.

The runs are copies of one, with its rows as those of each: to analyse as many takes ten minutes and
is not what is measured here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from labctl.report.data.compact import compact
from labctl.report.data.folder_runs import FolderRuns
from labctl.report.data.gathered import connect
from labctl.report.data.parts import MOST_RUNS, PartsManifest, commit, files_sql, write_part
from labctl.report.data.query_tables import TABLES, table_files
from tests.benchmarks.figures import in_turns, judged, seconds, show
from tests.unit.synthetic_run import WORK, Bench, build

RUNS, PHASES = 10_000, 100
PROMISED_S, PROMISED_LIST_S = 1.0, 2.0
QUESTION = "SELECT pattern, count(*), avg(watts), max(iops) FROM phases GROUP BY pattern"
PLAIN_LIST = """
import os, sys
root = sys.argv[1]
for name in sorted(os.listdir(root)):
    for part in ("run.json", "journal.jsonl", "channels", "fio"):
        try:
            os.stat(f"{root}/{name}/{part}")
        except OSError:
            pass
    print(name)
"""


def make_lab(root: Path, work: Path) -> None:
    """Ten thousand runs, and their tables as ``labctl compact`` makes them."""
    one = build(work / "one", Bench(loads=WORK)).path
    files = dict(zip(TABLES, table_files(one, work / "spare"), strict=True))
    for number in range(RUNS):
        run = root / f"202{number % 10}-{number:06d}_bench-{number % 40:02d}_made-up"
        (run / "channels").mkdir(parents=True)
        (run / "fio").mkdir()
        for name in ("run.json", "journal.jsonl"):
            shutil.copyfile(one / name, run / name)
    runs = FolderRuns(root, None)
    assert runs.place is not None
    parts = []
    with connect(work) as connection:
        for begin in range(0, RUNS, MOST_RUNS):
            names = dict(list(runs.states.items())[begin : begin + MOST_RUNS])
            connection.execute(
                "CREATE OR REPLACE TABLE names AS SELECT unnest($names) AS folder",
                {"names": list(names)},
            )
            select = {
                table: f"SELECT rows.*, folder FROM names, {files_sql([file])} rows"
                + (f', range({PHASES}) WHERE rows."index" = range % 6' if table == "phases" else "")
                for table, file in files.items()
            }
            select["drives"] += " WHERE run IS NOT NULL"
            parts.append(write_part(connection, runs.place, "2023-11", names, select, work))
        assert commit(runs.place, PartsManifest(), parts) is not None
        found = compact(runs, connection, None, work, lambda done, total: None)
        assert found.written == 0, "these are the tables of these runs"


def taken_s(*command: str) -> float:
    begin = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def main() -> None:
    labctl = str(Path(sys.executable).with_name("labctl"))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LABCTL_HOME"] = f"{folder}/home"
        root = Path(folder) / "runs"
        (Path(folder) / "work").mkdir()
        make_lab(root, Path(folder) / "work")
        time.sleep(61)  # then they are at rest (labctl.record.run_stamps)
        parts = [str(file) for file in root.glob("tables/phases/*/*.parquet")]
        plain = (
            'import duckdb; duckdb.execute("CREATE VIEW phases AS SELECT * FROM '
            f'read_parquet({parts})"); print(duckdb.sql({QUESTION!r}).fetchall())'
        )
        question = in_turns(
            lambda: taken_s(labctl, "query", QUESTION, "--runs", str(root)),
            lambda: taken_s(sys.executable, "-c", plain),
        )
        listed = in_turns(
            lambda: taken_s(labctl, "runs", "--runs", str(root)),
            lambda: taken_s(sys.executable, "-c", PLAIN_LIST, str(root)),
        )
    why = "what did not change is known by five sizes and times a run, and comes from few files"
    show(
        judged("question over 10,000 runs of 100 phases", question, 8.0, seconds,
               "plain DuckDB over the same Parquet", why, promised=PROMISED_S),
        judged("labctl runs of 10,000 runs", listed, 8.0, seconds,
               "a program that lists them and asks the times of four files of each",
               "a run that did not change is not read again", promised=PROMISED_LIST_S),
    )  # fmt: skip


main()
