#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""many.py FK_HOST SOURCE_DIR GOOD_PLUGIN BAD_PLUGINS_DIR: many candidates at once: verdicts one after the other with a table, two plugins against
each other, and the list of earlier verdicts with its filters and exports."""
import csv, io, json, os, pathlib, shutil, sqlite3, subprocess, sys, tempfile

host = sys.argv[1]
source, good, bad = map(pathlib.Path, sys.argv[2:5])
work = pathlib.Path(tempfile.mkdtemp())
candidates = work / "candidates"
candidates.mkdir()
env = dict(os.environ, FK_CANDIDATES=str(candidates), FK_CACHE=str(work / "cache"), FK_DATA=str(work / "data"))
env.pop("XDG_DATA_HOME", None)
quick = ["--size", "smoke", "--seconds", "0"]


def run(*words, code=0, **more):
    done = subprocess.run([host, *map(str, words)], env=dict(env, **more), cwd=work, capture_output=True, text=True, timeout=600)
    assert done.returncode == code, (words, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done


# Several candidates: a line for each as it ends, the reason of a bad one, and a table in the order of the command.
right, wrong = str(work / "right.so"), str(work / "wrong.so")
shutil.copy(good, right)
shutil.copy(bad / "bad_value.so", wrong)
done = run("bench", wrong, right, *quick, code=1)
lines = done.stdout.splitlines()
assert lines[0].startswith(f"1 of 2  {wrong}: wrong"), done.stdout
assert lines[1].startswith("  why ") and lines[2].startswith("  next "), done.stdout
assert any(line.startswith(f"2 of 2  {right}: correct") for line in lines), done.stdout
table = done.stdout[done.stdout.index("candidate "):].splitlines()
assert table[1].split()[:2] == [wrong, "wrong"] and table[2].split()[:2] == [right, "correct"], table
assert "silu_and_mul" in table[2] and table[-1].startswith("2 candidates: 1 correct, 1 wrong."), table
(listed,) = [row for row in json.loads(run("receipts", "--json", "--status", "correct").stdout)["receipts"]]
assert table[2].split()[-1] == listed["id"], (table, listed)
# The whole verdict of one is in the document, and it was answered from the store.
both = json.loads(run("bench", wrong, right, *quick, "--json", code=1).stdout)
assert [v["status"] for v in both["verdicts"]] == ["wrong", "correct"] and both["errors"] == [], both
assert all(v["stored"] and v["schema"] == "fk-host.verdict/1" for v in both["verdicts"])
# A question that is wrong for one candidate does not end the others.
run("new", "rms_norm", "--name", "mine")
done = run("bench", right, candidates / "mine", *quick, "--op", "rms_norm", "--json", code=2)
mixed = json.loads(done.stdout)
assert [v["status"] for v in mixed["verdicts"]] == ["correct"] and mixed["errors"][0]["candidate"] == right, mixed
assert "has no op `rms_norm`" in mixed["errors"][0]["what"], mixed
# A mistake in the command itself is reported before anything is judged.
for words, part in ((["bench", right, work / "none.so"], "no such file"), (["bench", right, "rms_norm"], "is an op"),
                    (["bench", "--all", right], "--all"), (["bench", right, wrong, "--receipt", work / "r"], "--receipt"),
                    (["bench", "rms_norm", "--jobs", "2"], "bench CANDIDATE"), (["bench", right, "--jobs", "0"], "--jobs")):
    done = run(*words, code=2)
    assert part in done.stderr and "1 of" not in done.stdout, (words, done.stdout, done.stderr)
# Several ops race their providers.
rows = json.loads(run("bench", "add", "rms_norm", *quick, "--case", "smoke0", "--json").stdout)["rows"]
assert {row["op"] for row in rows} == {"add", "rms_norm"}, rows

# Every candidate of the folder, compiled beside each other: folders with sources, one that does not compile, and plugins without.
broken = candidates / "broken"
shutil.copytree(candidates / "mine", broken)
(broken / "mine.so").unlink(missing_ok=True)
text = (broken / "rms_norm.cpp").read_text().replace("mine", "broken")
(broken / "rms_norm.cpp").write_text(text.replace("const float scale", "const flaot scale"))
(candidates / "empty").mkdir()
shutil.copy(good, candidates / "ready.so")
done = run("bench", "--all", "--jobs", "2", *quick, code=1)
assert [line.split()[3] for line in done.stdout.splitlines() if " of 3 " in line] == ["broken:", "mine:", "ready:"], done.stdout
table = done.stdout[done.stdout.index("candidate "):].splitlines()
assert [line.split()[:2] for line in table[1:4]] == [["broken", "compile_error"], ["mine", "correct"], ["ready", "correct"]], table
assert "flaot" in done.stdout.split("2 of 3")[0], done.stdout
assert not list((work / "cache/candidates").iterdir()), "folders of compilations are left"
assert run("bench", "--all", code=2, FK_CANDIDATES=str(work / "nobody")).stderr.count("fk-host new"), "no candidate"
# `--json mine` is the candidate, and no file; `--json FILE` is beside the report.
verdict = json.loads(run("bench", *quick, "--json", "mine").stdout)
assert verdict["candidate"]["name"] == "mine" and not (work / "mine").exists(), verdict["candidate"]
done = run("bench", "mine", *quick, "--json", "verdict.json")
assert "correct: right" in done.stdout and json.loads((work / "verdict.json").read_text())["status"] == "correct", done.stdout

# Two plugins against each other. One sleeps 20 ms a call.
done = run("compare", right, bad / "bad_slow.so", "--size", "smoke", "--case", "smoke0", "--seconds", "0.05", "--json", work / "compare.json")
told = json.loads((work / "compare.json").read_text())
assert told["verdict"] == "faster" and told["speedup_low"] > 10 and told["speedup_low"] <= told["speedup"] <= told["speedup_high"], told["cases"]
assert done.stdout.splitlines()[-1].startswith(f"faster: {right} is "), done.stdout
assert told["first_verdict"]["cases"][0]["baseline"] == told["second_verdict"]["candidate"]["name"] == "bad_slow", told["first_verdict"]["cases"][0]
assert told["second_verdict"]["cases"][0]["baseline"] == "good" and told["first_verdict"]["secret"] == told["second_verdict"]["secret"]
reverse = json.loads(run("compare", bad / "bad_slow.so", right, "--size", "smoke", "--case", "smoke0", "--seconds", "0.05", "--json").stdout)
assert reverse["verdict"] == "slower" and reverse["speedup_high"] < 0.1, reverse["cases"]
# A baseline is an opponent too. A wrong plugin is not compared, and its reason is said.
assert json.loads(run("compare", right, "cpu", *quick, "--case", "smoke0", "--json").stdout)["first_verdict"]["status"] == "correct"
done = run("compare", right, wrong, "--size", "smoke", "--case", "smoke0", "--seconds", "0.05", code=1)
assert f"not compared: {wrong} is `wrong`" in done.stdout, done.stdout
for words, part in (([right, "mine"], "no op that both have"), ([right, right], "the same file"), ([right, "cpuu"], "did you mean `cpu`"),
                    ([right, wrong, "--op", "add"], "--op"), ([right, wrong, "--size", "huge"], "smoke, ci, full")):
    assert part in run("compare", *words, code=2).stderr, words

# Earlier verdicts: op, speedup and candidate; filters; exports.
run("bench", bad / "bad_slow.so", "--size", "smoke", "--case", "smoke0", "--seconds", "0.05")
text = run("receipts").stdout
if "id " not in text:  # not built with SQLite
    print("many candidates are judged, compared; there is no store in this build")
    sys.exit(0)
slow = next(line for line in text.splitlines() if "bad_slow" in line)
assert "silu_and_mul" in slow and "slower" in slow and "(" in slow, slow


def rows(*words):
    return json.loads(run("receipts", *words, "--json").stdout)["receipts"]


everything = rows("--count", "100")
assert {row["status"] for row in everything} == {"correct", "wrong", "slower"}, everything
(slow,) = rows("--status", "slower")
assert slow["ops"] == ["silu_and_mul"] and slow["speedup_low"] <= slow["speedup"] <= slow["speedup_high"] < 0.1 and slow["baselines"] == ["cpu"], slow
assert {row["candidate"] for row in rows("--op", "rms_norm")} == {"mine"}
assert {row["status"] for row in rows("--candidate", "good")} == {"correct"}
assert rows("--candidate", "nobody") == [] and len(rows("--count", "1")) == 1
assert rows("--since", "1h") == rows("--since", "2020-01-01") == rows("--since", "2020-01-01 10:00") == everything
assert rows("--since", "2999-12-31") == [], "later than now"
csv_of = run("receipts", "--format", "csv").stdout
assert "?" not in csv_of.splitlines()[0], csv_of
table = list(csv.DictReader(io.StringIO(csv_of)))
assert [row["id"] for row in table] == [row["id"] for row in everything], table
assert [row["speedup"] for row in table if row["status"] != "slower"] == [""] * (len(table) - 1), table
by_line = [json.loads(line) for line in run("receipts", "--format", "jsonl").stdout.splitlines()]
assert by_line == everything
run("receipts", "--format", "markdown", "--status", "slower", "--output", work / "slow.md")
head, line, row = (work / "slow.md").read_text().splitlines()
assert head.startswith("| id | time |") and set(line) == set("|-") and "| bad\\_slow |" in row, (head, line, row)
for words, part in ((["--since", "yesterday"], "7d"), (["--status", "fastr"], "did you mean `faster`"), (["--op", "rms_nrom"], "rms_norm"),
                    (["--format", "xml"], "csv"), (["--output", work / "x"], "--format"), ([slow["id"], "--op", "add"], "for the list"),
                    (["--format", "csv", "--output", work / "no/x"], "mkdir -p")):
    done = run("receipts", *words, code=2)
    assert part in done.stderr, (words, done.stderr)
# A receipt that was changed is `damaged`, whatever the store's columns say.
with sqlite3.connect(work / "data/verdicts.sqlite") as store:
    store.execute("UPDATE verdicts SET receipt = replace(receipt, '\"slower\"', '\"faster\"') WHERE id = ?", (slow["id"],))
assert [row["id"] for row in rows("--status", "damaged")] == [slow["id"]] and rows("--status", "slower") == []

# Ops by family, level and dtype.
ops = json.loads(run("list", "ops", "--json").stdout)["rows"]
some = json.loads(run("list", "ops", "--family", "norm", "--family", "moe", "--level", "1", "--level", "L2", "--json").stdout)["rows"]
assert some == [op for op in ops if op["family"] in ("norm", "moe") and op["level"] in (1, 2)] and len({op["level"] for op in some}) == 2
eight = json.loads(run("list", "ops", "--dtype", "f8e4m3", "--json").stdout)["rows"]
assert eight == [op for op in ops if "f8e4m3" in op["dtypes"]] and 0 < len(eight) < len(ops)
for words, part in ((["--family", "norms"], "did you mean `norm`"), (["--level", "7"], "level"), (["--dtype", "bf17"], "did you mean `bf16`")):
    assert part in run("list", "ops", *words, code=2).stderr, words
assert "go with `list ops`" in run("list", "models", "--level", "1", code=2).stderr

shutil.rmtree(work)
print("many candidates are judged, compared, listed and exported as promised")
