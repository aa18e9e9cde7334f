#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""documents.py FK_HOST SOURCE_DIR GOOD_PLUGIN: the JSON of every verb is what its schema in docs/schema says, and docs/schema has what this host
prints with `fk-host show NAME --schema`."""
import json, os, pathlib, re, shutil, subprocess, sys, tempfile

from schema import validate

host, source, good = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
work = pathlib.Path(tempfile.mkdtemp())
(work / "candidates").mkdir()
env = dict(os.environ, FK_CANDIDATES=str(work / "candidates"), FK_CACHE=str(work / "cache"), FK_DATA=str(work / "data"))
env.pop("XDG_DATA_HOME", None)


def run(*words):
    return subprocess.run([host, *map(str, words)], env=env, capture_output=True, text=True, timeout=300)


# Each committed schema is the host's, and the host has no other. Every field has a meaning.
committed = {file.stem: file.read_text() for file in (source / "docs/schema").glob("*.json")}
for name, text in committed.items():
    printed = run("show", name, "--schema")
    assert printed.returncode == 0 and printed.stdout == text, f"fk-host show {name} --schema > docs/schema/{name}.json"
refusal = run("show", "no such document", "--schema")
assert refusal.returncode == 2, refusal
known = re.search(r"known: ([^)]*)\)", refusal.stderr)
names = known.group(1).split(", ")
if more := re.fullmatch(r"and (\d+) more", names[-1]):
    assert len(names) - 1 + int(more[1]) == len(committed), (names, sorted(committed))
    names.pop()
assert set(names) <= set(committed) and (more or len(names) == len(committed)), (refusal.stderr, sorted(committed))


def meanings(schema, path):
    for key, entry in schema.get("properties", {}).items():
        assert entry.get("description") or "const" in entry, f"{path}.{key} has no description"
        meanings(entry, f"{path}.{key}")
        meanings(entry.get("items", {}), f"{path}.{key}[]")


schemas = {name: json.loads(text) for name, text in committed.items()}
for name, schema in schemas.items():
    meanings(schema, name)

seen = set()
viewed = {"advice", "bench", "check", "compare", "comparison", "eval", "leaderboard", "run", "runs", "verdict", "verdicts"}


def check(name, *words, code=0):
    done = run(*words, "--json")
    assert done.returncode == code, (words, done.returncode, done.stderr)
    document = json.loads(done.stdout)
    problem = validate(document, schemas[name])
    assert problem is None, (words, problem)
    seen.add(name)
    if name in viewed:
        (work / "document.json").write_text(done.stdout)
        page, tables = work / "page.html", work / "tables" / name
        shown = run("report", work / "document.json", "--html", page, "--csv", tables)
        assert shown.returncode == 0 and page.read_text().count("<tr>") > 1 and any(tables.iterdir()), (words, shown)
    return document


for what in "ops", "models", "plugins", "workloads", "devices":
    assert check("list", "list", what)["rows"] or what == "plugins", what
check("list", "list", "models", "--map")
check("check", "check", "cpu", "--op", "rms_norm")
check("check", "check", "reference", "--op", "all_reduce", "--quick")
assert run("check", good, "--quick", "--report", work / "report.json").returncode == 0
problem = validate(json.loads((work / "report.json").read_text()), schemas["conformance"])
assert problem is None, problem
seen.add("conformance")
rows = check("bench", "bench", "rms_norm", "--size", "smoke", "--seconds", "0")["rows"]
assert any("speedup" in row for row in rows) and any("against" not in row for row in rows), rows
check("bench", "bench", "all_reduce", "--size", "smoke", "--seconds", "0", "--case", "smoke0")
check("run", "run", "smoke", "--device", "cpu")
smoke = source / "scenarios/smoke"
(work / "two.yaml").write_text(f"summary: one twice\nscenarios: [{smoke}, {smoke}]\n")
assert [report["scenario"] for report in check("runs", "run", work / "two.yaml", "--device", "cpu")["reports"]] == ["smoke", "smoke"]
check("verify", "verify", source / "test/golden/llama")
check("verify", "verify", work, code=2)

assert check("capture", "record", "smoke", "--device", "cpu", "--requests", "1", "--out", work / "captured")["cases"]

advice = check("advice", "advise", "smoke", "--device", "cpu", "--seconds", "0", "--limit", "1")
assert advice["ops"] and abs(sum(row["share"] for row in advice["ops"]) - 1) < 1e-6, advice

run("new", "add", "--name", "made")
assert check("build", "build", "made")["built"]
submission = work / "submission"
submission.mkdir()
shutil.copy(good, submission / "good.so")
(submission / "manifest.yaml").write_text("submission: one\nauthor: me\nkind: human\nplugins: {good.so: [silu_and_mul]}\n")
(work / "short.yaml").write_text("suite: short\nops: {size: smoke, seconds: 0}\nmodels: {scenarios: [smoke], profile: tiny}\n")
(evaluation,) = check("eval", "eval", work / "short.yaml", "--candidates", submission, "--device", "cpu")["evaluations"]
assert evaluation["schema"] == "fk-host.evaluation/1" and not evaluation["speed_judged"]
assert evaluation["components"] == {"speed": 1, "correctness": 1, "coverage": 1} and evaluation["score"]["value"] == 1, evaluation["score"]
(kept,) = (work / "data/evaluations/short/evaluations").iterdir()
assert validate(json.loads(kept.read_text()), schemas["evaluation"]) is None
seen.add("evaluation")
assert check("leaderboard", "leaderboard")["rows"][0]["id"] == evaluation["id"]
assert check("comparison", "compare-submissions", "one", evaluation["id"][:8])["score"][0]["gain"] == 1

candidate = pathlib.Path(shutil.copy(good, work / "small.so"))
verdict = check("verdict", "bench", candidate, "--size", "smoke", "--seconds", "0")
twice = check("verdicts", "bench", candidate, candidate, "--op", "silu_and_mul", "--size", "smoke", "--seconds", "0")
assert len(twice["verdicts"]) == 2 and not twice["errors"]
assert check("verdicts", "bench", candidate, candidate, "--op", "add", "--size", "smoke", code=2)["errors"][1]["where"] == "--op"
check("compare", "compare", candidate, "cpu", "--size", "smoke", "--case", "smoke0", "--seconds", "0.02")

serving = subprocess.Popen([host, "serve", "--http", "127.0.0.1:0"], env=env, stdout=subprocess.PIPE, text=True)
first = serving.stdout.readline()  # without SQLite there is no server
if first:
    assert check("service", "top", first.split()[-1])["lanes"][0]["stages"] == "check"
    serving.terminate()
else:
    seen.add("service")
serving.wait(60)

# An error is a document too, of every verb: bad usage, bad input, and what the machine refuses.
for words in (["lst"], ["list", "opps"], ["list", "ops", "--sed"], ["check"], ["show", "rms_nrom"], ["build", "nobody"], ["graph", "mixtrl"],
              ["bench", "liner"], ["run", "no scenario"], ["receipts", "nobody"], ["new", "rms_norm", "--name", "1st"], ["watch"], ["import", work / "none"]):
    error = check("error", *words, code=2)
    assert error["exit_code"] == 2 and error["what"] and error["what"] in error["text"], (words, error)
    assert error["verb"] == ("" if words[0] == "lst" else words[0]), (words, error)
error = check("error", "show", "rms_nrom", code=2)
assert error["where"] == "show" and error["hint"] == "did you mean `rms_norm`?", error
listed = check("receipts", "receipts")
if listed["receipts"]:  # not built with SQLite: there are none
    assert verdict["receipt"] in [row["id"] for row in listed["receipts"]]
    check("receipt", "receipts", verdict["receipt"])
    again = check("replay", "replay", verdict["receipt"], "--plugin", candidate)
    assert again["reproduced"] and again["was"]["schema"] == "fk-host.verdict/1"
    # Lines of the archive, and a run of an agent.
    check("verdict", "bench", work / "candidates/made", "--size", "smoke", "--seconds", "0")
    assert check("archive", "archive", "best", "add")["programs"]
    run("archive", "export", "--output", work / "programs.jsonl")
    for name, text in (("program", (work / "programs.jsonl").read_text()), ("trajectory", run("trajectories", "export").stdout),
                       ("training", run("trajectories", "export", "--kind", "rewards").stdout)):
        problem = validate(json.loads(text.splitlines()[0]), schemas[name])
        assert problem is None, (name, problem)
        seen.add(name)
    assert check("evolution", "evolve", "add", "--verdicts", "1", "--size", "smoke", "--seconds", "0.01")["winner"]
    whole = check("model_evolution", "evolve", "smoke", "--ops", "1", "--verdicts", "1", "--size", "smoke", "--seconds", "0.01", "--device", "cpu")
    assert [op["status"] in ("faster", "same", "slower", "cannot_tell") for op in whole["ops"]] == [True], whole["ops"]
    assert whole["run"]["candidates"][0]["verdict"] == "correct", whole["run"]["candidates"]
    seen.add("mirror")  # serve_model_mirror.py holds it against its schema
    assert seen == set(schemas), sorted(set(schemas) - seen)
