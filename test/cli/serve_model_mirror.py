#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serve_model_mirror.py FK_HOST SOURCE_DIR: `serve-model --mirror`. Fails when a client gets an answer of the candidate, when a different
answer is not in the report, when an equal one is, or when a dead candidate costs a client its answer."""
import atexit, concurrent.futures, json, os, pathlib, random, shutil, signal, subprocess, sys, tempfile

from model_server import Server, wait
from schema import validate

host = sys.argv[1]
work = pathlib.Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, work, True)
env = dict(os.environ, FK_DATA=str(work / "data"), FK_CACHE=str(work / "cache"), FK_CANDIDATES=str(work / "candidates"))
(work / "candidates").mkdir()


def made(name, change=lambda text: text):
    subprocess.run([host, "new", "rms_norm", "--name", name], env=env, check=True, capture_output=True, timeout=120)
    source = work / "candidates" / name / "rms_norm.cpp"
    text = source.read_text()
    assert name == "right" or change(text) != text, "the template has changed"
    source.write_text(change(text))
    subprocess.run([host, "build", name], env=env, check=True, capture_output=True, timeout=120)


def refused(words, part):
    done = subprocess.run([host, "serve-model", *words, "--http", "127.0.0.1:0"], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and part in done.stderr, (done.returncode, done.stderr)


refused(["llama3.1", "--mirror"], "--candidate")
refused(["llama3.1", "--json", str(work / "x.json")], "--mirror")
made("right")
made("wrong", lambda text: text.replace("fk::store(args.out", "for (int64_t i = 0; i < width; ++i) row[i] *= 1 + 0.5f * (i % 2);\n      fk::store(args.out"))
prompts = [random.Random(i).choices(range(200), k=20 + i) for i in range(12)]


def answers(server):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda prompt: server.ids(prompt, max_tokens=12), prompts))


alone = Server(host, env, "llama3.1", "--profile", "tiny")
expected = answers(alone)
assert alone.end() == 0

# The right candidate: all answers are equal, and their times have intervals.
server = Server(host, env, "llama3.1", "--profile", "tiny", "--mirror", "--candidate", "right", "--json", work / "right.json")
assert answers(server) == expected
stop = server.complete(prompts[0], max_tokens=60, stop_token_ids=[expected[0][3]])["choices"][0]  # the client has enough before the model's end
assert stop["finish_reason"] == "stop"
wait(lambda: server.ask("/mirror")[1]["open"] == 0, lambda: server.ask("/mirror"))
seen = server.ask("/mirror")[1]
problem = validate(seen, json.loads((pathlib.Path(sys.argv[2]) / "docs/schema/mirror.json").read_text()))
assert problem is None, problem
assert seen["requests"] == seen["equal"] == 13 and seen["different"] == seen["failed"] == seen["left_out"] == 0, seen
assert seen["schema"] == "fk-host.mirror/1" and seen["candidates"] == ["right"] and seen["tokens"] == seen["equal_tokens"] > 140, seen
for key in ("first_token", "next_token", "whole"):
    assert 0 < seen[key]["low"] <= seen[key]["value"] <= seen[key]["high"], (key, seen[key])

# A dead candidate: clients get all answers, and the report says what failed.
pids = server.workers()
assert len(pids) == 2, pids
before = server.metric("fk_model_restarts_total")
for pid in pids:
    if b"candidate" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() or pid == max(pids):
        os.kill(pid, signal.SIGKILL)
        break
assert answers(server) == expected
wait(lambda: server.ask("/mirror")[1]["open"] == 0, lambda: server.ask("/mirror"))
again = server.ask("/mirror")[1]
assert again["restarts"] + server.metric("fk_model_restarts_total") - before == 1, again
assert again["requests"] + again["failed"] == 25 and again["different"] == 0, again
assert server.end() == 0
kept = json.loads((work / "right.json").read_text())
assert kept["equal"] == again["equal"] and kept["open"] == 0, kept

# The wrong candidate: clients still get the baseline's answers, and each difference has its place and size.
server = Server(host, env, "llama3.1", "--profile", "tiny", "--mirror", "--candidate", "wrong", "--json", work / "wrong.json")
assert answers(server) == expected
assert server.end() == 0
seen = json.loads((work / "wrong.json").read_text())
assert seen["requests"] == 12 and seen["different"] > 6 and seen["equal"] + seen["different"] == 12, seen
assert len(seen["differences"]) == seen["different"] and seen["equal_tokens"] < seen["tokens"], seen
for one in seen["differences"]:
    assert one["baseline"] != one["candidate"] and not one["sampled"], one
assert all(one["apart"] is None or one["apart"] >= 0 for one in seen["differences"]) and any(one["apart"] for one in seen["differences"]), seen

# An encoder: vectors are compared.
server = Server(host, env, "bge_m3", "--profile", "tiny", "--mirror", "--candidate", "right", "--json", work / "encoder.json")
assert server.ask("/v1/embeddings", {"input": [[5, 6, 7], [8, 9]]})[0] == 200
assert server.end() == 0
seen = json.loads((work / "encoder.json").read_text())
assert seen["requests"] == seen["equal"] == 2 and seen["vectors_apart"] < 1e-3 and seen["whole"]["value"] > 0, seen
print("ok")
