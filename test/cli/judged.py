#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""judged.py FK_HOST SOURCE_DIR GOOD_PLUGIN BAD_PLUGINS_DIR: what the judge asks beside values and time, in cases of a registry
of its own: a case that a null candidate passes is untestable, dtypes and variants are judged, recorded cases and their routing
too, and so are a plugin's conduct and what it reads past an end."""
import hashlib, json, os, pathlib, re, shutil, subprocess, sys, tempfile, time

host = sys.argv[1]
source, good, bad = map(pathlib.Path, sys.argv[2:5])
work = pathlib.Path(tempfile.mkdtemp())
home = work / "home"
shutil.copytree(source / "registry", home / "registry")
(home / "scenarios").symlink_to(source / "scenarios")
env = dict(os.environ, FK_HOME=str(home), FK_CANDIDATES=str(work / "none"), FK_DATA=str(work / "data"))
env.pop("XDG_DATA_HOME", None)


def bench(plugin, *words, size="smoke", seconds="0", env=env):
    command = [host, "bench", str(plugin), "--size", size, "--seconds", seconds, "--no-store", "--json", *map(str, words)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.stdout.startswith("{"), done.stderr
    return json.loads(done.stdout), done.returncode


def refused(words, *command):
    """Bad usage: a sentence instead of a verdict."""
    done = subprocess.run([host, "bench", *map(str, command), "--no-store"], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and words in done.stderr, (done.returncode, done.stdout, done.stderr)


def by_case(verdict):
    return {case["case"]: case for case in verdict["cases"] if not case["beside"]}


def add_cases(op, *lines):
    """Smoke cases, behind those that are there."""
    (path,) = (home / "registry").rglob(f"{op}.yaml")
    text = path.read_text()
    assert "\n  ci:\n" in text
    path.write_text(text.replace("\n  ci:\n", "\n" + "".join(f"    - {{{line}}}\n" for line in lines) + "  ci:\n", 1))


# silu(0) * x is 0, so that zeros are right: nothing follows from being right here.
add_cases("silu_and_mul", "name: nothing, T: 4, size: 16, values: {x: constant(0)}")
verdict, code = bench(good)
cases = by_case(verdict)
assert cases["nothing"]["status"] == "untestable", cases["nothing"]["status"]
assert "zeros in out" in cases["nothing"]["why"], cases["nothing"]["why"]
assert any(not fake["rejected"] for fake in cases["nothing"]["nulls"])
assert cases["smoke0"]["status"] == "correct", cases["smoke0"]
assert any(fake["rejected"] for fake in cases["smoke0"]["nulls"]) and all(fake["rejected"] or fake["why"] for fake in cases["smoke0"]["nulls"])
assert verdict["aggregate"]["not_judged"] == 1 and verdict["status"] == "correct" and code == 0
verdict, code = bench(good, "--case", "nothing")
assert verdict["status"] == "untestable" and code == 3 and verdict["aggregate"]["right"] == 0
# One that breaks a rule there is not excused.
verdict, _ = bench(bad / "bad_past_end.so", "--case", "nothing")
assert verdict["status"] in ("violation", "illegal_access"), verdict["status"]

# Where inputs take their time, every kind that fits is there once all the same.
add_cases("silu_and_mul", "name: rows, T: 600, size: 2048")
verdict, _ = bench(good, "--case", "rows", "--thorough")
(case,) = verdict["cases"]
assert case["status"] == "correct" and not any("no time" in f["status"] for f in case["families"]), case["families"]
assert {"large", "small", "sparse", "ties"} <= {f["family"] for f in case["families"] if f["status"] == "correct"}, case["families"]
verdict, _ = bench(bad / "bad_large.so", "--case", "rows", "--thorough")
(case,) = verdict["cases"]
error = case["errors"]
assert case["status"] == "wrong" and error["field"] == "out" and 0 < error["wrong"] <= error["compared"] == 600 * 2048, case
assert error["first_bad"] >= 0 and error["got"] == 0 and abs(error["want"]) > 40 and error["limit"], error

# Nobody's rank decides whom it has to beat where none was measured.
slow = dict(env, FK_PLUGIN_PATH=str(good.parent / "slow"))
verdict, _ = bench(good, "--case", "smoke0", seconds="0.05", env=slow)
assert verdict["cases"][0]["baseline"] == "cpu", verdict["cases"][0]["baseline"]

# One that crashes on the way to the best one is left out by its name, and those behind it are asked.
crashing = dict(env, FK_PLUGIN_PATH=f"{good.parent / 'slow'}:{good.parent / 'crashing'}")
verdict, code = bench(good, "--case", "smoke0", seconds="0.05", env=crashing)
(case,) = verdict["cases"]
assert code == 0 and case["timings"] and case["baseline"] == "cpu", (verdict["status"], verdict["why"], case["baseline"])
assert [p["name"] for p in case["passed_over"]] == ["b_crash"] and "SIGSEGV" in case["passed_over"][0]["why"], case["passed_over"]
# The same where it is the first that is asked.
crashing["FK_PLUGIN_PATH"] = str(good.parent / "crashing")
verdict, code = bench(good, "--case", "smoke0", seconds="0.05", env=crashing)
(case,) = verdict["cases"]
assert code == 0 and case["baseline"] == "cpu" and [p["name"] for p in case["passed_over"]] == ["b_crash"], (verdict["why"], case["passed_over"])
# Who is wrong is named as well.
crashing["FK_PLUGIN_PATH"] = str(bad / "bad_value.so")
verdict, code = bench(good, "--case", "smoke0", seconds="0.05", env=crashing)
(case,) = verdict["cases"]
assert code == 0 and case["baseline"] == "cpu" and case["passed_over"][0]["name"] == "bad_value", case["passed_over"]
assert case["passed_over"][0]["why"].startswith("it is wrong: "), case["passed_over"]

# The oracle is no rival: a candidate of an op that nobody else has is right, however quick it is. An op with a rival is raced.
verdict, code = bench(bad.parents[1] / "attacks/plugins/honest/fused_mlp.so", "--case", "smoke0", seconds="0.05")
(case,) = verdict["cases"]
assert code == 0 and case["baseline"] == case["oracle"] == "reference" and case["timings"], (verdict["status"], verdict["why"], case)
assert verdict["status"] == case["status"] == "correct" and "there is no baseline to race: only the oracle takes the case" in verdict["why"], verdict["why"]
assert verdict["aggregate"]["ratio"]["value"] == 0 and verdict["aggregate"]["faster"] == 0, verdict["aggregate"]
verdict, code = bench(good, "--case", "smoke0", seconds="0.05")
assert verdict["cases"][0]["baseline"] == "cpu" and verdict["status"] in ("slower", "cannot_tell", "same", "faster"), (verdict["status"], verdict["why"])

# Whom the ranking names for a case's own sizes (T is 5).
sized = home / "registry/devices/sized.yaml"
for least, best in ((5, "cpu"), (6, "a_slow")):
    sized.write_text(f"device: sized\nname: cpu\nranking:\n  silu_and_mul: [{{where: {{T*F: {{at_least: {least * 32}}}}}, providers: [cpu]}}, [a_slow]]\n")
    verdict, _ = bench(good, "--case", "smoke0", seconds="0.05", env=slow)
    assert verdict["cases"][0]["baseline"] == best, (least, verdict["cases"][0]["baseline"])
sized.unlink()

# Whoever is faster than those that are left may have made the one fail that was quicker; not so where that was wrong, or is there.
ranking = home / "registry/devices/ranked.yaml"
def ranked(first, folders, seconds):
    ranking.write_text(f"device: ranked\nname: cpu\nmemory_bandwidth: 1.0e15\nl2_bytes: 0\nflops: {{f32: 1.0e18}}\n"
                       f"ranking:\n  silu_and_mul: [{', '.join(first)}]\n")
    path = ":".join(str(good.parent / f) for f in folders) + (f":{bad / 'bad_value.so'}" if "bad_value" in first else "")
    verdict, code = bench(good, "--case", "smoke0", seconds=seconds, env=dict(env, FK_PLUGIN_PATH=path))
    ranking.unlink()
    (case,) = verdict["cases"]
    case["spent_of"] = [part["what"] for part in verdict["spent"]]
    assert code == 0 and case["baseline"] == "a_slow", (first, verdict["status"], verdict["why"], case["baseline"], case["passed_over"])
    return case
def told(status, words, *asked):
    """A busy machine may have its doubts as well, and fewer of them the longer it looks."""
    for seconds in ("0.05", "0.05", "0.2", "0.5", "2"):
        case = ranked(*asked, seconds)
        if case["status"] == status and words in case["why"]:
            return case
    raise AssertionError((asked, case))
told("faster", "", ["a_slow"], ["slow"])
case = told("faster", "", ["bad_value", "a_slow"], ["slow"])
assert case["passed_over"][0]["name"] == "bad_value", case
case = told("cannot_tell", "the baseline b_crash failed and might have been faster", ["b_crash", "a_slow"], ["slow", "crashing"])
assert case["timings"][0]["ratio"]["value"] > 1.5, case["timings"]
# One that fails in the race itself is named, and the race is held beside the next.
case = told("cannot_tell", "the baseline d_late failed and might have been faster", ["d_late", "a_slow"], ["slow", "late"])
assert [p["name"] for p in case["passed_over"]] == ["d_late"] and "SIGSEGV" in case["passed_over"][0]["why"], case["passed_over"]
assert case["timings"][0]["ratio"]["value"] > 1.5, case["timings"]
# What that race kept for later, the candidate may have called: there is something new for the next.
assert "timing: contents for another race" in case["spent_of"], case["spent_of"]

# A baseline as the candidate never races its own file.
verdict, code = bench("cpu", "--op", "silu_and_mul", "--case", "smoke0", seconds="0.05")
(case,) = verdict["cases"]
assert code == 0 and verdict["status"] == "correct" and case["baseline"] == "reference" and case["timings"], (verdict["status"], case["baseline"])
assert "there is no baseline to race" in verdict["why"], verdict["why"]

# Whose contract and which case it was, whatever it is called and whatever the seed.
contract = next((home / "registry").rglob("silu_and_mul.yaml"))
add_cases("silu_and_mul", "name: again, T: 600, size: 2048")
verdict, _ = bench(good, "--variant", "odd shape", seconds="0.1")
again, _ = bench(good)
assert {c["contract_hash"] for c in verdict["cases"]} == {hashlib.sha256(contract.read_bytes()).hexdigest()}
hashes = {(c["case"], c["variant"]): c["case_hash"] for c in verdict["cases"] if not c["beside"]}
assert all(re.fullmatch("[0-9a-f]{64}", text) for text in hashes.values()), hashes
assert verdict["secret"] != again["secret"] and all(hashes[c["case"], c["variant"]] == c["case_hash"] for c in again["cases"] if not c["beside"]), hashes
assert hashes["again", ""] == hashes["rows", ""], hashes
assert len(set(hashes.values())) == len(hashes) - sum(name == "again" for name, _ in hashes), hashes
# A copy of as many bytes, beside both of a race; and calls on buffers that were just used.
timed = {c["case"]: c["timings"][0] for c in verdict["cases"] if c["timings"]}
assert {"smoke0", "rows"} <= set(timed), timed.keys()
for name, row in timed.items():
    a, b = row["candidate"], row["baseline"]
    copies = [side["of_copy"] * side["cold"]["median_s"] for side in (a, b)]
    assert 0 < copies[0] < 1 and abs(copies[0] / copies[1] - 1) < 1e-9, (name, copies)
    assert row["bytes"] / copies[0] < 1e12, (name, copies)  # more than a machine's memory and caches give is no copy
    assert all(0 < side["warm_s"] < 30 * side["cold"]["median_s"] + 1e-3 for side in (a, b)), (name, a, b)  # of one call; the machine may be busy
    assert row["host_bound"] is False, name  # a CPU waits for no host
assert timed["rows"]["candidate"]["of_copy"] * timed["rows"]["candidate"]["cold"]["median_s"] > 10 * timed["smoke0"]["candidate"]["of_copy"] * timed["smoke0"]["candidate"]["cold"]["median_s"], timed

# Who hangs is asked where, in the place of a crash's; who does not hear it is not waited for.
walls = {"hang": [], "deaf": []}
for name in 3 * ["hang", "deaf"]:  # of which the quickest counts: a busy machine adds to some
    begin = time.monotonic()
    verdict, code = bench(bad / f"bad_{name}.so", "--case", "smoke0", "--patience", "1")
    walls[name].append(time.monotonic() - begin)
    (case,) = verdict["cases"]
    assert verdict["status"] == "hang" and code == 1, (name, verdict["status"], verdict["why"])
    assert "gave no sign of life for 1" in case["why"], case["why"]
    told = "was stopped in bad_hang" in case["why"] and "forward" in case["why"] and "#1 " in case["evidence"]
    assert told == (name == "hang"), (name, case["why"], case["evidence"])
assert min(walls["deaf"]) - min(walls["hang"]) < 0.6, walls  # it is waited for 0.2 s

# On a machine that needs a second for a kilobyte nobody is as fast as this.
peaks = home / "registry/devices/slowest.yaml"
peaks.write_text("device: slowest\nname: cpu\nmemory_bandwidth: 1.0e3\nl2_bytes: 0\nflops: {f32: 1.0e15}\n")
verdict, code = bench(good, "--case", "smoke0", seconds="0.05")
peaks.unlink()
assert verdict["status"] == "impossible" and code == 1 and "needs" in verdict["cases"][0]["why"], verdict["cases"][0]
# Nor is an exchange quicker than the link between ranks, which has to bring half of the wire's bytes at least.
for link, status in ((1e3, "impossible"), (1e15, None)):
    peaks.write_text(f"device: slowest\nname: cpu\nmemory_bandwidth: 1.0e15\nlink_bandwidth: {link:.1e}\nl2_bytes: 0\nflops: {{f32: 1.0e15}}\n")
    verdict, code = bench(pathlib.Path(host).parent / "test/attacks/plugins/ranks/ranks_plain.so", "--op", "all_reduce", "--case", "smoke3", seconds="0.05")
    peaks.unlink()
    (case,) = verdict["cases"]
    wire = 4 * (3 - 1) * 8 * 64 // 3  # three ranks, 8 rows of 64
    assert case["timings"][0]["wire"] == wire, case["timings"][0]
    assert case["status"] == status if status else case["status"] not in ("impossible", "wrong", "failed"), case
    assert status is None or abs(case["timings"][0]["floor_s"] * link / (wire / 2) - 1) < 1e-6 and code == 1 and "needs 682 ms for its bytes, its link and operations" in case["why"], case["why"]

# Dtypes and variants beside the cases as written: what is refused is left out, what is claimed is judged.
small = ("--case", "smoke0", "--case", "smoke1")
verdict, code = bench(good, "--dtype", "all", *small)
assert [(c["variant"], c["status"]) for c in verdict["cases"]] == 2 * [("", "correct")], verdict["cases"]
verdict, _ = bench(bad / "bad_dtype.so", "--dtype", "all", "--case", "smoke0")
found = {c["variant"]: c["status"] for c in verdict["cases"]}
assert found[""] == "correct" and found["bf16"] in ("wrong", "violation", "illegal_access"), found
# It refuses gaps between heads, and takes a wrong step between rows. Only hidden rows with dense heads find it.
verdict, code = bench(bad / "bad_dense_heads.so")
assert verdict["status"] == "wrong" and code == 1 and "padded" in verdict["why"], verdict["why"]
named = [case["strided"] for case in verdict["cases"] if case.get("strided")]
assert all(len(set(fields)) == len(fields) for fields in named), named
verdict, _ = bench(bad / "bad_gap.so", "--variant", "padded rows")
found = {c["variant"]: c for c in verdict["cases"]}
assert found["padded rows"]["status"] == "violation" and found["padded rows"]["rule"] == "footprint", found
refused("no case has a variant `padded row`", bad / "bad_gap.so", "--variant", "padded row")

# `check` also finds lost memory and state that instances share. Modes changed in supports() end every request.
for name, rule in {"leak": "leak", "leak_call": "leak", "global": "instances", "rounds_early": "state"}.items():
    verdict, code = bench(bad / f"bad_{name}.so", *small)
    assert verdict["status"] == "violation" and code == 1, (name, verdict["status"], verdict["why"])
    assert rule in {c["rule"] for c in verdict["cases"]}, (name, verdict["cases"])

# Every other set of buffers ends where a page without access begins.
verdict, _ = bench(bad / "bad_read_far.so", "--case", "smoke0")
assert verdict["status"] == "illegal_access" and "past the end of x" in verdict["why"], verdict["why"]

# Recorded cases, whose routing is beside uniform and published ones.
captured = work / "captured"
done = subprocess.run([host, "capture", "mixtral", "--workload", "single_request", "--requests", "1", "--limit", "2", "--op", "moe_align",
                       "--op", "silu_and_mul", "--out", str(captured)],
                      env=env, capture_output=True, text=True, timeout=300)
assert done.returncode == 0, done.stderr
command = ["cpu", "--captured", captured, "--op", "moe_align", "--op", "silu_and_mul"]
verdict, code = bench(*command)
beside = [c for c in verdict["cases"] if c["beside"]]
assert {(c["op"], c["size"], c["routing"], c["captured"]) for c in beside} == {(op, size, "", "") for op in ("moe_align", "silu_and_mul") for size in ("smoke", "range")}, beside
recorded = [c for c in verdict["cases"] if not c["beside"]]
aligned = [c for c in recorded if c["op"] == "moe_align"]
assert code == 0 and {c["routing"] for c in aligned} == {"uniform", "skewed", "captured"}, verdict["why"]
for case in recorded:
    assert case["status"] in ("correct", "untestable"), case
    assert "captured from mixtral (tiny), random weights" in case["captured"], case["captured"]
    assert ("topk_ids" not in case["generated"]) if case["routing"] in ("", "captured") else "topk_ids" in case["generated"], case
    assert (case["skew"] >= 1) == (case["op"] == "moe_align"), case
for name in {c["case"] for c in aligned}:  # the same sizes, and other experts
    assert len({c["case_hash"] for c in aligned if c["case"] == name}) == 3, name
assert {tuple(c["generated"]) for c in recorded if c["op"] == "silu_and_mul"} == {("x",)}
verdict, _ = bench(*command, "--case", aligned[0]["case"], "--routing", "skewed:3", seconds="0.01")
timed = {c["routing"]: c for c in verdict["cases"]}
assert timed["skewed"]["timings"] and timed["skewed"]["of_uniform"] > 0 and timed["uniform"]["of_uniform"] is None, timed
# What a skew costs is told of the skewed row, as its time over that of uniform routing: here the square of the busiest expert's load.
verdict, _ = bench(good.parent / "busy/busy_expert.so", "--captured", captured, "--case", "prefill.0", "--routing", "skewed:3", seconds="0.02")
timed = {c["routing"]: c for c in verdict["cases"]}
seconds = {name: c["timings"][0]["candidate"]["cold"]["median_s"] for name, c in timed.items()}
for name in ("skewed", "captured"):
    assert abs(timed[name]["of_uniform"] / (seconds[name] / seconds["uniform"]) - 1) < 1e-6, (name, timed[name]["of_uniform"], seconds)
wanted = (timed["skewed"]["skew"] / timed["uniform"]["skew"]) ** 2
assert wanted > 2 and timed["skewed"]["of_uniform"] > 1.5, (wanted, timed["skewed"]["of_uniform"])
# A profile is of the case, routing, contents and file that were judged: the profiler is put around a process that calls nothing else.
profiled = dict(env, PATH=f"{source / 'test/cli/nsight'}{os.pathsep}{env['PATH']}")
busy = work / "busy.so"
shutil.copy(good.parent / "busy/busy_expert.so", busy)
of_skew = [busy, "--captured", captured, "--case", "prefill.0", "--routing", "skewed:3", "--profile"]
for _ in range(2):
    # Whose contents are not judged as they were is told apart by its seed, and whose routing is another by its skew.
    verdict, _ = bench(*of_skew, seconds="0.02", env=profiled)
    rows = {c["routing"]: c for c in verdict["cases"]}
    said = verdict["profile"].splitlines()[-1]
    assert said.startswith("profiled: moe_align, case prefill.0, inputs ") and "ncu: off" in verdict["profile"], verdict["profile"]
    assert said.endswith(f"uniform routing {rows['uniform']['skew']:.6g}"), (said, rows["uniform"]["skew"])
    again, _ = bench(*of_skew, "--secret", verdict["secret"], env=profiled)
    assert again["profile"] == verdict["profile"], (again["profile"], verdict["profile"])
verdict, _ = bench(good, "--case", "smoke0", "--profile", env=profiled)
assert "profiled: silu_and_mul, case smoke0, inputs " in verdict["profile"], verdict["profile"]
assert [k["registers"] for k in verdict["kernels"]] == [36] and len(verdict["kernels"][0]["hints"]) == 4, verdict["kernels"]
# Nothing was timed, so it is of the first right row of those which were asked for.
verdict, _ = bench(good, "--captured", captured, "--profile", env=profiled)
first = next(c for c in verdict["cases"] if not c["beside"] and c["status"] == "correct")
assert f"profiled: silu_and_mul, case {first['case']}, inputs " in verdict["profile"], verdict["profile"]
refused("has no cases of gelu", "cpu", "--captured", captured, "--op", "gelu")
refused("have no expert ids", "cpu", "--routing", "skewed", "--op", "gelu")

# Where a size has no cases nothing is called, and nothing is said.
text = contract.read_text()
contract.write_text(re.sub(r"\n  full:\n(    .*\n)+", "\n", text))
assert contract.read_text() != text
verdict, code = bench(good, size="full")
assert verdict["status"] == "unused" and code == 0 and not verdict["cases"], (verdict["status"], verdict["cases"])
assert "no full cases" in verdict["why"] and "fk-host list plugins" in verdict["next"], (verdict["why"], verdict["next"])

shutil.rmtree(work)
print("the judge asks what it should")
