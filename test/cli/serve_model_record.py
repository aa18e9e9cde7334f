#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serve_model_record.py FK_HOST SOURCE_DIR: `serve-model --record` keeps requests and answers, and `run` replays them. Fails when a request or a
token is missing, when a replay gives other answers, when a full disk or a kill costs more than the last request, or when others can read the folder."""
import atexit, concurrent.futures, json, os, pathlib, random, re, resource, shutil, signal, socket, stat, subprocess, sys, tempfile, time

from model_server import Server, wait

host, source = sys.argv[1], pathlib.Path(sys.argv[2])
work = pathlib.Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, work, True)
env = dict(os.environ, FK_DATA=str(work / "data"), FK_CACHE=str(work / "cache"), FK_CANDIDATES=str(work / "candidates"))
(work / "candidates").mkdir()
llama = ["llama3.1", "--profile", "tiny", "--device", "cpu", "--max-context", 512]


def run(*words, code=0):
    done = subprocess.run([host, *map(str, words)], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def lines(folder):
    text = (folder / "requests.jsonl").read_text()
    return [json.loads(line) for line in text.split("\n")[:-1]]


def traffic_of(report):
    rows = [row for row in json.loads(report.read_text())["baseline"]["workloads"]]
    assert [row["workload"] for row in rows] == ["traffic"], rows
    return rows[0]


begin = random.Random(1).choices(range(200), k=40)
prompts = [begin[:20 + i] + random.Random(i).choices(range(200), k=i) for i in range(12)]


def greedy(server):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda prompt: server.ids(prompt, max_tokens=12), prompts))


plain = Server(host, env, *llama)
expected = greedy(plain)
warm = dict(temperature=0.9, top_k=40, top_p=0.95, seed=11, n=2, max_tokens=20)
drawn = [choice["token_ids"] for choice in plain.complete(prompts[3], **warm)["choices"]]
assert plain.end() == 0

# Each answer is a line: prompt, answer, sampling and times. Nothing names the client.
server = Server(host, env, *llama, "--record", work / "whole")
assert greedy(server) == expected
time.sleep(0.3)  # a pause, which a replay leaves out
assert [choice["token_ids"] for choice in server.complete(prompts[3], **warm)["choices"]] == drawn
stop = server.complete(prompts[0], max_tokens=60, stop_token_ids=[expected[0][3]])["choices"][0]["token_ids"]
peer = socket.create_connection(("127.0.0.1", server.port))  # a client that goes away
body = json.dumps({"prompt": prompts[5], "max_tokens": 400, "temperature": 0, "stream": True, "ignore_eos": True, "n": 16, "user": "secret-name"}).encode()
peer.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
seen = b""
while b"data: " not in seen:
    part = peer.recv(1 << 16)
    assert part, seen
    seen += part
peer.close()
wait(lambda: len(lines(work / "whole")) == 31, "not every request is kept")
server.complete([1], status=400, max_tokens=100000)  # a refused request is none
server.complete(prompts[1], presence_penalty=1.5, min_p=0.01, max_tokens=8)
assert server.end() == 0
assert "32 requests" in server.process.stderr.read()
kept = lines(work / "whole")
assert len(kept) == 32
for prompt, answer in zip(prompts, expected):
    mine = [one for one in kept if one["prompt"] == prompt and one["answer"] == answer]
    assert len(mine) == 1 and mine[0]["end"] == "length" and mine[0]["max_tokens"] == 12 and "temperature" not in mine[0], mine
    assert 0 < mine[0]["first_token_s"] < mine[0]["done_s"] < 60 and mine[0]["at_s"] >= 0
two = [one for one in kept if one.get("temperature")]
assert [one["answer"] for one in sorted(two, key=lambda one: one["seed"])] == drawn and [one["seed"] for one in sorted(two, key=lambda one: one["seed"])] == [11, 12], two
assert all(abs(one["temperature"] - 0.9) < 1e-6 and one["top_k"] == 40 and abs(one["top_p"] - 0.95) < 1e-6 for one in two)
assert [one["answer"] for one in kept if one["end"] == "stop"] == [stop]
gone = [one for one in kept if one["end"] == "abort"]
assert gone and all(one["prompt"] == prompts[5] and len(one["answer"]) < 400 and one["max_tokens"] == 400 for one in gone), gone
assert sum(one["prompt"] == prompts[5] and one["max_tokens"] == 400 for one in kept) == 16 and any(one["answer"] for one in gone)
answered = [one for one in kept if one["answer"]]  # an answer of some batch has no token yet
assert [one["presence_penalty"] for one in kept if "min_p" in one] == [1.5]
first = min(one["at_s"] for one in kept)
assert min(one["at_s"] for one in two) - max(one["at_s"] for one in kept if one["answer"] in expected) > 0.25, "times of arrival are wrong"
assert b"secret-name" not in b"".join(path.read_bytes() for path in (work / "whole").rglob("*") if path.is_file())
assert stat.S_IMODE((work / "whole").stat().st_mode) == 0o700
assert all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in (work / "whole").rglob("*") if path.is_file())
assert "has a recording" in run("serve-model", *llama, "--http", "127.0.0.1:0", "--record", work / "whole", code=2)

# A replay gives all answers again, also sampled and cut ones: all but the one with penalties, which a judged run does not know.
report = work / "run.json"
said = run("run", work / "whole", "--device", "cpu", "--json", report)
row = traffic_of(report)
assert row["as_recorded"] == {"equal": len(answered) - 1, "of": len(answered) - 1} and row["kind"] == "replay" and row["requests"] == len(answered), row
assert row["output_tokens"] == sum(len(one["answer"]) for one in answered) and row["prompt_tokens"] == sum(len(one["prompt"]) for one in answered)
assert row["first_token_s"]["count"] > 0 and row["prefill_tokens_per_s"] is None, row
# The pause is left out: all rounds are shorter than the recording.
assert row["round_s"]["median"] < max(one["at_s"] + one["done_s"] for one in kept) - first

# A changed answer is found, and so is a wrong line. A line without an end is left out.
shutil.copytree(work / "whole", work / "changed")
changed = [json.dumps(dict(one, answer=[*one["answer"][:-1], (one["answer"][-1] + 1) % 200]) if i == 4 else one) for i, one in enumerate(kept)]
(work / "changed/requests.jsonl").write_text("\n".join([*changed, '{"at_s": 1, "prom']))
run("run", work / "changed", "--device", "cpu", "--json", report)
assert traffic_of(report)["as_recorded"] == {"equal": len(answered) - 2, "of": len(answered) - 1}
(work / "changed/requests.jsonl").write_text("\n".join([*changed, '{"at_s": 1, "prom', ""]))
assert "requests.jsonl:33" in run("run", work / "changed", "--device", "cpu", code=2)

# Requests arrive at their times: behind a long answer, a late request waits for less time than one which came at the start.
late = work / "late"
shutil.copytree(work / "whole", late)
text = re.sub(r'"max_batch":\d+', '"max_batch":1', (late / "traffic.yaml").read_text())
(late / "traffic.yaml").write_text(text.replace("run: [traffic]", "run: [traffic, at_once]"))
(late / "workloads/traffic.yaml").write_text((late / "workloads/traffic.yaml").read_text() + "  at_once: {kind: throughput, requests: 2, recorded: ../requests.jsonl}\n")


def waits(at_s):
    two = [{"at_s": 0, "prompt": prompts[0], "answer": [1] * 400}, {"at_s": at_s, "prompt": prompts[1], "answer": [1]}]
    (late / "requests.jsonl").write_text("".join(json.dumps(one) + "\n" for one in two))
    run("run", late, "--device", "cpu", "--json", report)
    rows = json.loads(report.read_text())["baseline"]["workloads"]
    return {row["workload"]: row["first_token_s"]["p90"] for row in rows}


for _ in range(4):  # a busy machine may delay either
    long = waits(0)
    waited = waits(0.8 * long["at_once"])
    if waited["traffic"] < 0.8 * waited["at_once"]:
        break
else:
    raise AssertionError((long, waited))

# `record` makes cases of ops from it, and a candidate is judged with it.
run("record", work / "whole", "--device", "cpu", "--op", "paged_attention", "--out", work / "cases")
cases = json.loads((work / "cases/capture.json").read_text())
assert cases["workloads"] == [{"name": "traffic", "requests": len(answered)}] and cases["scenario"] == "traffic"
run("new", "silu_and_mul", "--name", "mine")
run("build", "mine")
run("run", work / "whole", "--device", "cpu", "--candidate", "mine", "--json", report)
judged = json.loads(report.read_text())["candidates"][0]
assert judged["verdict"] == "correct" and judged["workloads"][0]["as_recorded"]["of"] == len(answered) - 1, judged
shutil.rmtree(work / "candidates/mine")

# A full disk loses the request that it has no room for, and no other one.
server = Server(host, env, *llama, "--record", work / "full")
assert server.ids(prompts[0], max_tokens=12) == expected[0]
size = (work / "full/requests.jsonl").stat().st_size
most = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)[1]
resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size + 30, most))
assert server.ids(prompts[1], max_tokens=12) == expected[1]
assert (work / "full/requests.jsonl").stat().st_size == size, "a part of a line stays"
resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (most, most))
assert server.ids(prompts[2], max_tokens=12) == expected[2]
assert [one["answer"] for one in lines(work / "full")] == [expected[0], expected[2]]
assert server.end() == 0
said = server.process.stderr.read()
assert "tried again" in said and "kept again" in said and "2 requests" in said and "1 are lost" in said, said

# So does a limit, and a killed server loses open requests alone.
server = Server(host, env, *llama, "--record", work / "small", "--record-gib", 0.0000005)
assert greedy(server) == expected and server.end() == 0
assert 1 <= len(lines(work / "small")) < 12 and (work / "small/requests.jsonl").stat().st_size <= 537
server = Server(host, env, *llama, "--record", work / "killed")
assert greedy(server) == expected
server.process.send_signal(signal.SIGKILL)
server.process.wait(60)
assert sorted(one["answer"] for one in lines(work / "killed")) == sorted(expected)
run("run", work / "killed", "--device", "cpu", "--json", report)
assert traffic_of(report)["as_recorded"] == {"equal": 12, "of": 12}

# Two ranks, and an encoder.
server = Server(host, env, *llama, "--tp", 2, "--record", work / "ranks")
ranks = greedy(server)
assert server.complete(prompts[0])["usage"]["prompt_tokens_details"]["cached_tokens"] == (len(prompts[0]) - 1) // 16 * 16
assert server.end() == 0
run("run", work / "ranks", "--device", "cpu", "--tp", 2, "--json", report)
assert traffic_of(report)["as_recorded"] == {"equal": 13, "of": 13}
encoder = Server(host, env, "bge_m3", "--profile", "tiny", "--device", "cpu", "--record", work / "texts")
assert encoder.ask("/v1/embeddings", {"input": [[5, 6, 7], [8, 9]]})[0] == 200 and encoder.end() == 0
assert sorted(one["prompt"] for one in lines(work / "texts")) == [[5, 6, 7], [8, 9]]
run("run", work / "texts", "--device", "cpu", "--json", report)
assert traffic_of(report)["requests"] == 2 and traffic_of(report)["as_recorded"] is None
print("ok")
