#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""trace.py FK_HOST SOURCE_DIR GOOD_PLUGIN: traces of `run` and `bench` have the form that Perfetto reads. Events are sorted by time; slices of a thread
are nested; spans are pairs; each process and thread has a name, and ranks are processes. The sums of a trace are in the run's document."""
import collections, json, os, pathlib, shutil, subprocess, sys, tempfile

host, source, good = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
work = pathlib.Path(tempfile.mkdtemp())
(work / "candidates").mkdir()
env = dict(os.environ, FK_CANDIDATES=str(work / "candidates"), FK_CACHE=str(work / "cache"), FK_DATA=str(work / "data"))
env.pop("XDG_DATA_HOME", None)


def call(*words, code=0):
    done = subprocess.run([host, *map(str, words)], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, (words, done.returncode, done.stdout[-1000:], done.stderr[-2000:])
    return done


def trace(*words, code=0):
    """Names of processes by number, names of threads, and all events of a trace of sound form."""
    call(*words, "--trace", work / "trace.json", code=code)
    document = json.loads((work / "trace.json").read_text())
    assert document["displayTimeUnit"] == "ns" and "fk-host" in document["otherData"]["program"], document["otherData"]
    named = {kind: {} for kind in ("process_name", "thread_name", "process_sort_index")}
    events = []
    for event in document["traceEvents"]:
        if event["ph"] == "M":
            key = event["pid"] if event["name"] != "thread_name" else (event["pid"], event["tid"])
            assert key not in named[event["name"]], event
            named[event["name"]][key] = next(iter(event["args"].values()))
        else:
            events.append(event)
    processes, threads = named["process_name"], named["thread_name"]
    assert len(set(processes.values())) == len(processes), processes
    open_spans, ends = {}, collections.defaultdict(list)
    last = 0
    for event in events:
        assert event["pid"] in processes and event["ts"] >= last and event["name"], (last, event)
        last = event["ts"]
        if event["ph"] == "X":
            at = (event["pid"], event["tid"])
            end = round(1000 * (event["ts"] + event["dur"]))
            assert at in threads and event["dur"] >= 0, event
            while ends[at] and ends[at][-1] <= round(1000 * event["ts"]):
                ends[at].pop()
            assert not ends[at] or end <= ends[at][-1], ("a slice reaches out of the slice around it", event)
            ends[at].append(end)
        elif event["ph"] == "b":
            assert event["id"] not in open_spans, event
            open_spans[event["id"]] = event["name"]
        else:
            assert event["ph"] == "e" and open_spans.pop(event["id"]) == event["name"], event
    assert not open_spans and events and events[0]["ts"] == 0, open_spans
    return processes, threads, events


smoke = source / "scenarios/smoke"
processes, threads, events = trace("run", smoke, "--device", "cpu", "--json", work / "run.json", "--html", work / "run.html")
assert list(processes.values()) == ["smoke, baseline"], processes
ops = [e for e in events if e["ph"] == "X" and "provider" in e.get("args", {})]
layers = {e["name"] for e in events if e["ph"] == "X" and not e.get("args")}
assert {"model.layers.0", "model.layers.1"} <= layers and {"linear", "paged_attention"} <= {e["name"] for e in ops}, layers
run = json.loads((work / "run.json").read_text())
steps = collections.Counter(e["name"] for e in events if e["ph"] == "X" and "ops" in e.get("args", {}))
requests = [e for e in events if e["ph"] == "b"]
assert len(requests) == 3 and all(e["args"]["tokens"] == 8 and e["args"]["first token, ms"] > 0 for e in requests), requests
for row in run["traced"]:
    assert row["steps"] == steps[row["phase"]] and row["side"] == "baseline", (row, steps)
assert abs(sum(row["seconds"] for row in run["traced"]) - sum(e["dur"] for e in ops) * 1e-6) < 1e-6, run["traced"]
assert sum(row["calls"] for row in run["traced"]) == len(ops)
assert "A mean step of the phase decode" in (work / "run.html").read_text()

# Ranks are processes of one time.
processes, threads, events = trace("run", smoke, "--device", "cpu", "--tp", "2")
assert list(processes.values()) == ["smoke, baseline, rank 0", "smoke, baseline, rank 1"], processes
count = collections.Counter(e["pid"] for e in events if e["ph"] == "X")
assert len(count) == 2 and len(set(count.values())) == 1, count

# Sides begin a workload together; a wrong candidate is left out with a note.
shutil.copy(good, work / "candidates/good.so")
processes, threads, events = trace("run", smoke, "--device", "cpu")
sides = {name: pid for pid, name in processes.items()}
assert set(sides) == {"smoke, baseline", "smoke, good"}, processes
assert {e["args"]["provider"] for e in events if e["pid"] == sides["smoke, good"] and "provider" in e.get("args", {})} >= {"good"}
assert {e["ts"] for e in events if e["ph"] == "b"} == {0}, "sides begin apart"

# A verdict: the judge's steps, and the median calls of both sides, the same case at the same time.
processes, threads, events = trace("bench", good, "--op", "silu_and_mul", "--size", "smoke", "--seconds", "0.05", "--json", work / "verdict.json")
names = list(processes.values())
assert names[0] == "the judge" and names[1].startswith("good: median call"), processes
assert any(e["name"].endswith(": timing (1 of 1)") or ": timing" in e["name"] for e in events if e["pid"] == 1), [e["name"] for e in events]
timed = [t for c in json.loads((work / "verdict.json").read_text())["cases"] for t in c["timings"]]
calls = {name: [e for e in events if threads.get((e["pid"], e["tid"])) == name] for name in ("baseline", "candidate")}
assert timed and all(len(c) == len(timed) for c in calls.values()), (len(timed), calls)
for t, a, b in zip(timed, calls["baseline"], calls["candidate"]):
    assert abs(b["dur"] * 1e-6 - t["candidate"]["cold"]["median_s"]) < 1e-8 and a["ts"] == b["ts"], (t, a, b)
processes, threads, events = trace("bench", "rms_norm", "--size", "smoke", "--seconds", "0.02")
assert {"cpu", "reference"} <= set(threads.values()), threads

# The file is tried before the work.
done = call("run", smoke, "--device", "cpu", "--trace", work / "no/where.json", code=2)
assert "mkdir -p" in done.stderr and not done.stdout, done
