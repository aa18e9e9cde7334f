#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""archive.py FK_HOST SOURCE_DIR: `bench` puts programs with known sources into the archive, and `archive` finds them. Fails when a
verdict is lost, a program is there twice, or a file of an older version cannot be used."""
import json, os, pathlib, re, shutil, signal, sqlite3, subprocess, sys, tempfile

host, source = sys.argv[1], pathlib.Path(sys.argv[2])
work = pathlib.Path(tempfile.mkdtemp())
candidates = work / "candidates"
env = dict(os.environ, FK_CANDIDATES=str(candidates), FK_CACHE=str(work / "cache"), FK_DATA=str(work / "data"))
quick = ["--size", "smoke", "--seconds", "0"]
template = (source / "plugin_api/template/ops/silu_and_mul.cpp").read_text()


def run(*words, code=0):
    done = subprocess.run([host, *map(str, words)], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, (words, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done


def candidate(name, text, **notes):
    folder = candidates / name
    folder.mkdir(parents=True)
    (folder / "silu_and_mul.cpp").write_text(re.sub(r'FK_PLUGIN\("[^"]*"', f'FK_PLUGIN("{name}"', text))
    if notes:
        (folder / "notes.json").write_text(json.dumps(notes))
    return folder


def archived(*words):
    return json.loads(run("archive", *words, "--json").stdout)["programs"]


# A right one, the same with a comment, a wrong child, and one that does not compile.
assert "there is no archive" in run("archive", "best", "silu_and_mul", code=2).stderr
run("bench", candidate("right", template), *quick)
(right,) = archived("best", "silu_and_mul", "--sources")
assert right["op"] == "silu_and_mul" and right["family"] == "activation" and right["verdict"]["status"] == "correct", right
assert [f["name"] for f in right["files"]] == ["silu_and_mul.cpp"] and 'FK_PLUGIN("right"' in right["files"][0]["text"]
assert right["verdict"]["receipt"] and right["features"] == {"threads": False}, right
run("bench", "right", *quick)  # by name: the build's sources are known; the answer is the stored one
changed = template.replace("FK_OP(", "// a comment\nFK_OP(")
run("bench", candidate("right2", changed).parent / "right2", *quick)
wrong = template.replace("* up[i]", "+ up[i]")
assert wrong != template
run("bench", candidate("child", wrong, parents=[right["id"]], author="me", strategy="Add instead", stage="refine", predicted_gain=1.2,
                       tag="sum", license="MIT"), *quick, code=1)
run("bench", candidate("broken", template + "\nint x = ;\n"), *quick, code=1)
run("archive", "export", "--output", work / "all.jsonl")
lines = [json.loads(line) for line in (work / "all.jsonl").read_text().splitlines()]
status = {line["name"]: line["verdict"]["status"] for line in lines}
assert status == {"right": "correct", "right2": "correct", "child": "wrong", "broken": "compile_error"}, status
by = {line["name"]: line for line in lines}
assert len(by["right"]["verdicts"]) == 1 and by["right2"]["same_as"] == right["id"], by
assert by["child"]["notes"] == {"author": "me", "parents": [right["id"]], "strategy": "Add instead", "stage": "refine",
                                "predicted_gain": 1.2, "tag": "sum", "license": "MIT"}, by["child"]["notes"]
assert by["child"]["verdict"]["why"] and by["child"]["verdict"]["cases"], by["child"]
assert "error" in by["broken"]["verdict"]["why"], by["broken"]

# The verb finds best programs, samples and lineages.
assert [p["name"] for p in archived("best", "silu_and_mul", "--duplicates")] == ["right", "right2"]
assert [p["name"] for p in archived("sample", "silu_and_mul", "--seed", "3")] == ["right"]
assert [p["name"] for p in archived("lineage", by["child"]["id"][:10])] == ["child", "right"]
diff = json.loads(run("archive", "diff", by["child"]["id"][:10], "--json").stdout)["diff"]
assert diff.startswith("--- a/silu_and_mul.cpp\n+++ b/silu_and_mul.cpp\n@@ "), diff
at = work / "patched"
shutil.copytree(candidates / "right", at)
if shutil.which("patch"):
    subprocess.run(["patch", "-p1", "-s"], cwd=at, input=diff, text=True, check=True)
    assert (at / "silu_and_mul.cpp").read_text() == (candidates / "child/silu_and_mul.cpp").read_text()
assert json.loads(run("archive", "strategies", "silu_and_mul", "--json").stdout)["strategies"][0]["tries"] == 1
for words, part in ((("best", "rms_nrom"), "rms_norm"), (("lineage", "zz"), "no program"), (("bst", "add"), "did you mean `best`"),
                    (("export",), "--output"), (("best",), "one op")):
    assert part in run("archive", *words, code=2).stderr, words

# Into another archive and out again: the same lines. A changed source is refused.
other = work / "other.sqlite"
assert "4 programs new" in run("archive", "import", work / "all.jsonl", "--archive", other).stdout
assert "0 programs new" in run("archive", "import", work / "all.jsonl", "--archive", other).stdout
run("archive", "export", "--output", work / "again.jsonl", "--archive", other)
assert (work / "again.jsonl").read_text() == (work / "all.jsonl").read_text()
(work / "bad.jsonl").write_text((work / "all.jsonl").read_text().replace("// a comment", "// b comment"))
assert "hash" in run("archive", "import", work / "bad.jsonl", "--archive", other, code=2).stderr
assert "3 programs removed" in run("archive", "prune", "--keep", "1", "--days", "0", "--archive", other).stdout
left = sqlite3.connect(other)
kept = {name for (name,) in left.execute("SELECT name FROM programs")}
assert kept == {"right"}, kept
assert left.execute("SELECT count(*) FROM sources WHERE sha256 NOT IN (SELECT sha256 FROM files)").fetchone() == (0,)

# No archive for --no-store, one for --archive; bad notes are told, and cost no verdict.
own = work / "own.sqlite"
run("bench", "right", *quick, "--no-store", "--archive", own)
assert len(archived("best", "silu_and_mul", "--archive", own)) == 1
noted = candidate("noted", template.replace("1 + std::exp", "1.f + std::exp"), stage="reefine")
done = run("bench", noted, *quick)
assert "not in the archive" in done.stderr and "did you mean `refine`" in done.stderr, done.stderr
assert "notes.json" in run("bench", noted, *quick, "--archive", own, code=2).stderr

# A job of a server: its notes reach the archive, and its client is the author of a source whose notes name none.
sys.path.insert(0, str(source / "scripts"))
from fk_client import Client, ServiceError

(work / "tokens").write_text("ann 0123456789abcdef-ann\n")
(work / "tokens").chmod(0o600)
server = subprocess.Popen([host, "serve", "--http", "127.0.0.1:0", "--tokens", str(work / "tokens")], env=env, stdout=subprocess.PIPE, text=True)
try:
    ann = Client(server.stdout.readline().split()[-1], "0123456789abcdef-ann")
    (work / "served.cpp").write_text(re.sub(r'FK_PLUGIN\("[^"]*"', 'FK_PLUGIN("served"', template.replace("1 + std::exp", "1.0f + std::exp")))
    words = {"parents": [right["id"]], "strategy": "A float one", "stage": "refine"}
    job = ann.wait(ann.submit(work / "served.cpp", size="smoke", seconds=0, notes=words)["id"], 300)
    assert job["status"] == "correct", (job, ann.log(job["id"]))
    (work / "other.cpp").write_text(re.sub(r'FK_PLUGIN\("[^"]*"', 'FK_PLUGIN("other"', template.replace("1 + std::exp", "1.00f + std::exp")))
    job = ann.wait(ann.submit(work / "other.cpp", size="smoke", seconds=0.01, notes={"author": "bob"})["id"], 300)
    assert job["stage"] == "time", job  # the notes survive the way from the check to the timing
    for notes, part in (({"stage": "reefine"}, "`refine`"), ({"strategie": "x"}, "strategy"), ({"strategy": "x" * 70000}, "64")):
        try:
            raise AssertionError(ann.submit(work / "served.cpp", notes=notes))
        except ServiceError as error:
            assert error.status == 400 and part in str(error), (notes, error)
finally:
    server.send_signal(signal.SIGTERM)
    server.wait(60)
run("archive", "export", "--output", work / "served.jsonl")
by = {line["name"]: line["notes"] for line in map(json.loads, (work / "served.jsonl").read_text().splitlines())}
assert by["served"] == {"author": "ann", **words}, by
assert by["other"] == {"author": "bob"}, by

# A file of version 1 becomes one of this version with all that it had; a newer and a foreign one stay as they are.
tables = (source / "core/archive/archive_tables.cpp").read_text().split('R"(')[1].split(')"')[0]
old = work / "old.sqlite"
with sqlite3.connect(old) as db:
    db.executescript(tables + "PRAGMA user_version=1;")
    db.execute("INSERT INTO programs VALUES(1, 'abc', 'silu_and_mul', 'activation', 'cpu', 'cpp', 'old', 'someone', '2026-01-01T00:00:00Z',"
               " 'n', '', '', '{}', 1)")
    db.execute("INSERT INTO sources VALUES('s', 'int old;')")
    db.execute("INSERT INTO files VALUES('abc', 0, 'silu_and_mul.cpp', 's')")
    db.execute("INSERT INTO verdicts VALUES(1, 'abc', '2026-01-01T00:00:00Z', 'r', 'faster', 2, 1.5, 3, ?)",
               [json.dumps({"status": "faster", "speed": 2, "low": 1.5, "high": 3})])
db.close()
(program,) = archived("best", "silu_and_mul", "--archive", old, "--sources")
assert program["files"][0]["text"] == "int old;" and program["notes"] == {"author": "someone"} and program["verdict"]["low"] == 1.5, program
run("bench", "right", *quick, "--archive", old)
assert [p["name"] for p in archived("best", "silu_and_mul", "--archive", old)] == ["old", "right"]
assert sqlite3.connect(old).execute("PRAGMA user_version").fetchone() == (2,)
newer = work / "newer.sqlite"
with sqlite3.connect(newer) as db:
    db.executescript("CREATE TABLE programs(x); PRAGMA user_version=99;")
assert "newer fk-host" in run("archive", "best", "silu_and_mul", "--archive", newer, code=2).stderr
foreign = work / "foreign.sqlite"
with sqlite3.connect(foreign) as db:
    db.executescript("CREATE TABLE x(y);")
assert "another program" in run("archive", "best", "silu_and_mul", "--archive", foreign, code=2).stderr
shutil.rmtree(work)
