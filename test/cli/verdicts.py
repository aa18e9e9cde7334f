#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""verdicts.py FK_HOST SOURCE_DIR GOOD_PLUGIN BAD_PLUGINS_DIR: every verdict of `bench` is what docs/schema/verdict.json says, a question
that was asked before is answered from the store, receipts are signed, replayed and refused when a byte of them was changed."""
import ctypes, hashlib, json, os, pathlib, shutil, sqlite3, subprocess, sys, tempfile, threading

from schema import validate

host = sys.argv[1]
source, good, bad = map(pathlib.Path, sys.argv[2:5])
work = pathlib.Path(tempfile.mkdtemp())
env = dict(os.environ, FK_CANDIDATES=str(work / "candidates"), FK_CACHE=str(work / "cache"), FK_DATA=str(work / "data"))
env.pop("XDG_DATA_HOME", None)
schema = json.loads((source / "docs/schema/verdict.json").read_text())
quick = ["--size", "smoke", "--seconds", "0"]  # nothing here depends on a quiet machine


def run(*words, program=host, **more):
    return subprocess.run([str(w) for w in (program, *words)], env=dict(env, **more), capture_output=True, text=True, timeout=300)


def bench(plugin, *words, **more):
    done = run("bench", plugin, *quick, "--json", *words, **more)
    assert done.stdout.startswith("{"), done.stderr
    verdict = json.loads(done.stdout)
    problem = validate(verdict, schema)
    assert problem is None, problem
    table = {"environment": 3, "untestable": 3, "unjudged": 3, "correct": 0, "faster": 0, "same": 0, "slower": 0,
             "cannot_tell": 0, "unused": 0}
    assert done.returncode == table.get(verdict["status"], 1), (done.returncode, verdict["status"], verdict["why"], done.stderr)
    assert verdict["next"], verdict["status"]
    spent = sum(phase["seconds"] for phase in verdict["spent"])
    assert not verdict["secret"] or not verdict["cases"] or 0.9 * verdict["seconds"] <= spent <= verdict["seconds"], (spent, verdict["seconds"], verdict["spent"])
    return verdict, done


# The validator finds what it is for.
some = {"type": "object", "properties": {"a": {"type": ["number", "null"]}}, "required": ["a"], "additionalProperties": False}
assert validate({"a": 1.5}, some) is None and validate({"a": None}, some) is None
for wrong in ({}, {"a": "1"}, {"a": True}, {"a": 1, "b": 2}, []):
    assert validate(wrong, some), wrong
assert validate(1, {"minimum": 2}), "a word that is not checked"

# A plain and right candidate.
right = work / "small.so"
shutil.copy(good, right)
first, done = bench(right)
assert first["status"] == "correct", (first["status"], first["why"])
assert not first["stored"] and len(first["receipt"]) == 16 and len(first["secret"]) == len(first["commitment"]) == 64
stored_here = "not stored" not in done.stderr
signed_here = "not signed" not in done.stderr

# Whatever its file is called: as long as a name may be, of two lines, of bytes that are no UTF-8.
for name in ("n" * 240, "two\nlines", os.fsdecode(b"bad\xff")):
    odd = pathlib.Path(shutil.copy(good, work / f"{name}.so"))
    verdict, _ = bench(odd, "--no-store", "--case", "smoke0")
    assert verdict["status"] == "correct", (name, verdict["status"], verdict["why"])
    odd.unlink()

# Wrong ones get their status, and the schema holds for them too.
for name, wanted in {"value": "wrong", "segfault": "crashed", "throws": "violation", "hang": "hang", "export": "lint", "contract": "load",
                     "past_end": "illegal_access", "before": "illegal_access", "random": "nondeterministic",
                     "supports_status": "refused", "unresolved": "load", "entry_null": "load", "table_minor": "load",
                     "constructor": "crashed", "entry_crash": "crashed", "entry_hang": "hang", "file": "violation", "stack_end": "crashed", "input": "violation", "leak_tail": "wrong"}.items():
    verdict, _ = bench(bad / f"bad_{name}.so", "--patience", "3")
    assert verdict["status"] == wanted, (name, verdict["status"], verdict["why"])
    assert verdict["why"] and verdict["next"], name
    assert all(c["sizes"] for c in verdict["cases"]), name
    told = {"unresolved": ("cannot be loaded: undefined symbol: nobody_has_this", "Define what is missing"),
            "entry_null": ("refused this host", "Build it again"), "constructor": ("at_load", "failed assert"), "past_end": ("past ", "Check the index at its end"),
            "value": ("elements are off", "conditions on this index"), "stack_end": ("its stack is used up", "need.scratch"),
            "file": ("openat for writing", "Remove the named call"), "segfault": ("bad_forward_, in forward", "optional field"),
            "leak_tail": ("of every row: zeros", "Only the end is wrong"),  # and not the leak, which is for later
            "input": ("a write to the input x", "outputs and scratch alone")}
    for words, said in zip(told.get(name, ()), (verdict["why"], verdict["next"])):
        assert words in said, (name, words, said)
    if name == "segfault":  # with the function's name in the trace as well
        (frame,) = [line for line in verdict["cases"][0]["evidence"].splitlines() if line.strip().startswith("#1 ")]
        assert "of a null pointer" in verdict["why"] and "bad_segfault" in frame and frame.endswith(" bad_forward_"), verdict["cases"][0]["evidence"]

# And so do attacks that are told by more than their values (test/attacks).
attacks = bad.parents[1] / "attacks/plugins"
for name, wanted, why, hint in (("resources/g1_create", "memory", "its create() and prepare() took ", "need.scratch"),
                                ("clock/a8_answer", "cheating", "it answered another request", "Read the evidence")):
    verdict, _ = bench(attacks / f"{name}.so", "--case", "smoke0", "--patience", "100", "--no-store")
    if name == "clock/a8_answer" and verdict["status"] == "wrong":  # what it said is at times heard after its values were looked at
        continue
    assert verdict["status"] == wanted and why in verdict["why"] and hint in verdict["next"], (name, verdict["status"], verdict["why"], verdict["next"])

# A host without an oracle cannot say anything, and whose oracle crashes has nobody else to blame.
bare = work / "bare"
(bare / "plugins").mkdir(parents=True)
shutil.copy(host, bare / "fk-host")
for crashing, wanted, why in ((False, "unjudged", "no reference provider implements silu_and_mul"), (True, "environment", "the oracle: crashed: SIGSEGV")):
    if crashing:
        shutil.copy(good.parent / "oracle_crash.so", bare / "plugins/reference.so")
    verdict, _ = bench(right, "--no-store", program=bare / "fk-host", FK_HOME=str(source))
    assert verdict["status"] == wanted and why in verdict["why"] and {c["status"] for c in verdict["cases"]} == {wanted}, (verdict["status"], verdict["why"], verdict["cases"])

# Nothing is loaded from where the host was started, where its user's search path has an empty entry: before it is sealed a runner loads what is linked.
astray = work / "astray"
astray.mkdir()
ctypes.CDLL("libm.so.6")
system = next(line.split()[-1] for line in pathlib.Path("/proc/self/maps").read_text().splitlines() if line.endswith("/libm.so.6"))
shutil.copy(system, astray / "libm.so.7")
(astray / "other.so").write_bytes(good.read_bytes().replace(b"libm.so.6\0", b"libm.so.7\0"))
for words in (["check"], ["bench", *quick, "--no-store"]):
    done = subprocess.run([host, *words, "other.so"], env=dict(env, LD_LIBRARY_PATH="/usr/lib:"), cwd=astray, capture_output=True, text=True, timeout=300)
    assert "libm.so.7: cannot open" in done.stdout, done.stdout + done.stderr

# Who is ten thousand times as slow is not asked as often as the other side needs; 20 ms a call took half a minute.
verdict = json.loads(run("bench", bad / "bad_slow.so", "--size", "smoke", "--seconds", "0.05", "--no-store", "--json").stdout)
assert verdict["status"] == "slower" and verdict["seconds"] < 18, (verdict["status"], verdict["seconds"], verdict["why"])

# A profile is what `ncu` says, or where it is not, why there is none.
(work / "bin").mkdir()
without = os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if not os.path.exists(os.path.join(p, "ncu")))
assert "no `ncu`" in bench(right, "--profile", PATH=without)[0]["profile"]
(work / "bin/ncu").write_text('#!/bin/sh\necho "kernels of: $*"\n')
(work / "bin/ncu").chmod(0o755)
verdict, _ = bench(right, "--profile", "--no-store", PATH=f"{work / 'bin'}{os.pathsep}{without}")
assert " --profile-from-start off" in verdict["profile"] and f"--secret {verdict['secret']}" in verdict["profile"] and str(right) in verdict["profile"], verdict["profile"]
untold, _ = bench(right, "--no-store")
assert untold["profile"] == "" and untold["receipt"] == "", untold["receipt"]

# A plugin with its file's name is found without a look at others, and by another name among them.
named, own = work / "candidates", first["candidate"]["name"]
named.mkdir()
for stem in (own, "elsewhere"):
    file = shutil.copy(good, named / f"{stem}.so")
    assert bench(stem)[0]["candidate"]["name"] == own, stem
    file.unlink()

# A file that is written while it is judged: whatever was judged has the hash that the verdict names.
honest, other = right.read_bytes(), (bad / "bad_value.so").read_bytes()
moving = work / "moving.so"
hashes = {hashlib.sha256(honest).hexdigest(): "correct", hashlib.sha256(other).hexdigest(): "wrong"}
for delay in (0.0, 0.01, 0.02, 0.05, 0.1, 0.2):
    moving.write_bytes(honest)
    swap = threading.Timer(delay, lambda: [(work / "next.so").write_bytes(other), os.replace(work / "next.so", moving)])
    swap.start()
    verdict, _ = bench(moving, "--no-store")
    swap.join()
    assert verdict["status"] in ("environment", hashes.get(verdict["candidate"]["sha256"])), (delay, verdict["status"], verdict["why"])

# Neither a file that is no plugin nor sources that do not compile are a usage error.
(work / "text.so").write_text("no plugin")
assert bench(work / "text.so")[0]["status"] == "load"
folder = work / "candidates/broken"
folder.mkdir(parents=True)
(folder / "broken.c").write_text("int forward(void) { return nonsense; }\n")
for words in ((folder,), ("broken", "--build")):
    verdict, _ = bench(*words)
    assert verdict["status"] == "compile_error" and "nonsense" in verdict["why"], verdict
    # Places are those of the folder, wherever it is.
    assert verdict["why"].startswith("broken.c:1:") and str(folder) not in verdict["log"], verdict

# A source may name any file; what is not the system's or its own is closed to the compiler, where the kernel can do that.
(work / "secret.h").write_text("static const int leaked = 1;\n")
(folder / "own.h").write_text("static const int leaked = nonsense;\n")
for included in ("own.h", work / "secret.h"):
    (folder / "broken.c").write_text(f'#include <math.h>\n#include "{included}"\nint forward(void) {{ return leaked; }}\n')
    closed = "nonsense" if included == "own.h" else "Permission denied"
    verdict, _ = bench(folder)
    held = any(p["name"] == "landlock_files" and p["active"] for p in first["protections"])
    assert closed in verdict["log"] or (included != "own.h" and not held), verdict
receipt = work / "receipt.json"
run("receipts", first["receipt"], "--output", receipt)
if stored_here:
    # The same question again, and questions that differ in one thing.
    again, done = bench(right)
    assert again["stored"] and not done.stderr, done.stderr
    assert {**again, "stored": False} == first
    text = run("bench", right, *quick)
    assert "answered from the store" in text.stdout, text.stdout
    fresh, _ = bench(right, "--fresh")
    assert not fresh["stored"] and fresh["secret"] != first["secret"]
    assert bench(right)[0]["secret"] == fresh["secret"]
    assert not bench(right, "--no-store")[0]["stored"]
    assert not bench(right, "--case", "smoke0")[0]["stored"]
    copy = work / "copy.so"
    shutil.copy(right, copy)
    assert bench(copy)[0]["stored"], "the same file elsewhere is the same candidate"
    with open(copy, "ab") as file:
        file.write(b"\0")
    assert not bench(copy)[0]["stored"]

    listed = json.loads(run("receipts", "--count", "100", "--json").stdout)["receipts"]
    assert {first["receipt"], fresh["receipt"]} <= {row["id"] for row in listed}
    assert first["secret"] in run("receipts", first["receipt"]).stdout
    assert run("receipts", "fffffffffffffffff").returncode == 2

    # What is listed was signed, whatever the table's columns say.
    with sqlite3.connect(work / "data/verdicts.sqlite") as table:
        table.execute("UPDATE verdicts SET status='faster', time='never', candidate='other'")
    listed = {row["id"]: row for row in json.loads(run("receipts", "--count", "100", "--json").stdout)["receipts"]}
    row = listed[first["receipt"]]
    assert (row["status"], row["time"], row["candidate"]) == (first["status"], first["time"], first["candidate"]["name"]), row
    # Another host's receipt in the table is told to be one.
    run("receipts", FK_DATA=str(work / "moved"))  # which makes a key
    for part in (work / "data").glob("verdicts.sqlite*"):
        shutil.copy(part, work / "moved")
    done = run("receipts", first["receipt"], FK_DATA=str(work / "moved"))
    assert not signed_here or "which is not the key of this host" in done.stderr, done.stderr

    # A damaged database is moved aside and never fatal; one that cannot be written is told.
    (work / "data/verdicts.sqlite").write_bytes(b"no database at all" * 400)
    for leftover in ("-wal", "-shm"):
        (work / f"data/verdicts.sqlite{leftover}").unlink(missing_ok=True)
    verdict, done = bench(right)
    assert not verdict["stored"] and "was damaged" in done.stderr, done.stderr
    assert bench(right)[0]["stored"]
    (work / "file").write_text("x")
    verdict, done = bench(right, FK_DATA=str(work / "file/below"))
    assert "the verdict is not stored" in done.stderr and verdict["cases"]

    # Replaying.
    assert receipt.is_file()
    done = run("replay", receipt, "--json")
    answer = json.loads(done.stdout)
    assert validate(answer["now"], schema) is None and answer["now"]["secret"] == first["secret"]
    assert answer["verified"] == signed_here and answer["own_key"] == signed_here
    assert done.returncode == 0 and answer["reproduced"] and not answer["differences"], answer["differences"]
    assert not answer["depends_on"], answer["depends_on"]
    original = json.loads(receipt.read_text())
    for path, value in ((("verdict", "status"), "faster"), (("verdict", "cases", 0, "why"), "because"),
                        (("verdict", "secret"), "0" * 64), (("key", "parts", "size"), "full"), (("signature",), "0" * 128)):
        if path == ("signature",) and not signed_here:
            continue
        forged = json.loads(receipt.read_text())
        place = forged
        for step in path[:-1]:
            place = place[step]
        assert place[path[-1]] != value
        place[path[-1]] = value
        (work / "forged.json").write_text(json.dumps(forged))
        done = run("replay", work / "forged.json")
        assert done.returncode == 2 and not done.stdout, (path, done.stdout)
    if signed_here:
        assert run("replay", receipt, "--key", "0" * 64).returncode == 2
    # Who made a receipt chose the file: a stranger's word does not open the sandbox that one's own does, or has anybody wait for ever.
    if signed_here:
        unsealed = work / "unsealed.json"
        assert run("bench", right, *quick, "--no-sandbox", "--patience", "1000", "--receipt", unsealed).returncode == 0
        for data, opened in ((work / "data", True), (work / "stranger", False)):
            answer = json.loads(run("replay", unsealed, "--json", FK_DATA=str(data)).stdout)
            assert answer["now"]["policy"]["sandbox"] != opened and answer["own_key"] == opened, answer["now"]["policy"]
            assert answer["now"]["policy"]["patience_s"] == (1000 if opened else 300), answer["now"]["policy"]
            assert [d["what"] for d in answer["depends_on"]] == ([] if opened else ["patience", "sandbox"]), answer["depends_on"]
    # Another file under the old name is told; the right one is found beside the receipt or by --plugin.
    right.write_bytes(right.read_bytes() + b"\0")
    assert "is another file" in run("replay", receipt).stderr
    elsewhere = work / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(good, elsewhere / "small.so")
    shutil.copy(receipt, elsewhere / "receipt.json")
    for words in ((elsewhere / "receipt.json",), (receipt, "--plugin", elsewhere / "small.so")):
        done = run("replay", *words)
        assert "REPRODUCED" in done.stdout, done.stderr

shutil.rmtree(work)
print("verdicts, store, receipts and replay are as promised" + ("" if stored_here else "; there is no store in this build"))
