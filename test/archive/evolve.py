#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""evolve.py FK_HOST SOURCE_DIR: `fk-host evolve` with the agent that ships, with one over HTTP and with bad ones; killed, gone on
with, and replayed. Fails when a step is lost or judged twice, or a replay differs without a word."""
import http.server, json, os, pathlib, shutil, signal, subprocess, sys, tempfile, threading, time

host, source = sys.argv[1], pathlib.Path(sys.argv[2])
work = pathlib.Path(tempfile.mkdtemp())
env = dict(os.environ, FK_CANDIDATES=str(work / "candidates"), FK_CACHE=str(work / "cache"), FK_DATA=str(work / "data"))
short = ["--size", "smoke", "--seconds", "0.01"]
template = (source / "plugin_api/template/ops/silu_and_mul.cpp").read_text()


def run(*words, code=0, **more):
    done = subprocess.run([host, *map(str, words)], env=dict(env, **more), capture_output=True, text=True, timeout=600)
    assert code is None or done.returncode == code, (words, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done


def steps(folder):
    return [json.loads((at / "result.json").read_text()) for at in sorted((folder / "steps").iterdir())]


# A run that is killed at any moment goes on, and has each step once.
first = work / "first"
words = [host, "evolve", "silu_and_mul", "--verdicts", "3", "--seed", "5", "--run", str(first), *short]
for seconds in (1.5, 6):
    process = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.wait()
kept = {at: (at / "result.json").read_bytes() for at in (first / "steps").iterdir() if (at / "result.json").exists()}
out = json.loads(run("evolve", "--run", first, "--json", code=None).stdout)
assert out["ended"] == "3 verdicts", out["ended"]
assert all((at / "result.json").read_bytes() == text for at, text in kept.items())
judged = [s for s in out["steps"] if s["reached"] not in ("agent", "duplicate")]
assert len(judged) == 3 and len({s["id"] for s in judged}) == 3, out["steps"]
assert out["steps"][0]["notes"]["author"] == "template" and out["steps"][0]["reached"] == "full", out["steps"][0]
for step in judged[1:]:
    assert step["notes"]["author"] == "mutate" and step["notes"]["strategy"] and step["notes"]["parents"], step
    task = first / f"steps/{step['number']:04}"
    for name in ("TASK.md", "task.json", "archive.json", "parents/1/feedback.json", "parents/1/silu_and_mul.cpp", "out/notes.json"):
        assert (task / name).is_file(), name
assert out["winner"] and out["fresh"]["receipt"] not in {s["verdict"]["receipt"] for s in judged}, out
assert (first / "winner/silu_and_mul.cpp").is_file()
programs = json.loads(run("archive", "best", "silu_and_mul", "--duplicates", "--json").stdout)["programs"]
assert {s["id"] for s in judged if s["verdict"]["status"] not in ("wrong", "compile_error")} <= {p["id"] for p in programs}

# A replay is equal. One of a changed record is not, and says where.
again = work / "again"
assert "all steps are as they were" in run("evolve", "--replay", first, "--run", again).stdout
assert steps(again) == steps(first)
changed = work / "changed"
shutil.copytree(first, changed)
at = changed / f"steps/{judged[1]['number']:04}/result.json"
at.write_text(at.read_text().replace('"strategy": "', '"strategy": "not '))
assert "`notes` is" in run("evolve", "--replay", changed, "--run", work / "differs", code=1).stdout

# An endpoint that replays three answers: a source that does not compile, no code, and a right one.
answers = [template + "\nint x = ;\n", None,
           template.replace("namespace {", "namespace {\nconstexpr int kUnused = 4;", 1)]
asked = []


class Stub(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked.append((self.path, self.headers.get("Authorization"), json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
        source = answers[(len(asked) - 1) % len(answers)]
        text = "I cannot." if source is None else (
            f"```cpp\n{source}\n```\n```json\n{{\"strategy\": \"number {len(asked)}\", \"stage\": \"draft\", \"predicted_gain\": 2}}\n```")
        body = json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stub)
threading.Thread(target=server.serve_forever, daemon=True).start()
endpoint = dict(OPENAI_BASE_URL=f"http://127.0.0.1:{server.server_port}/v1", OPENAI_API_KEY="secret-key", FK_AGENT_MODEL="stub-1")
asked_run = work / "asked"
out = json.loads(run("evolve", "silu_and_mul", "--agent", "openai", "--verdicts", "3", "--run", asked_run, "--json", *short, **endpoint).stdout)
got = [(s["reached"], s["verdict"]["status"]) for s in out["steps"][1:]]
assert got[0] == ("quick", "compile_error") and got[1][0] == "agent" and got[2][0] == "full", got
assert out["steps"][3]["notes"] | {"parents": 0, "island": 0} == {"author": "stub-1", "strategy": "number 3", "stage": "draft",
                                                                 "predicted_gain": 2.0, "parents": 0, "island": 0}, out["steps"][3]
assert asked[0][0] == "/v1/chat/completions" and asked[0][1] == "Bearer secret-key" and asked[0][2]["model"] == "stub-1"
assert "Recent failures" in asked[2][2]["messages"][0]["content"]
assert not [f for f in asked_run.rglob("*") if f.is_file() and b"secret-key" in f.read_bytes()]
count = len(asked)
run("evolve", "--replay", asked_run, "--run", work / "replayed")  # asks nobody
assert len(asked) == count

# Agents that fail, hang and leave nothing end as steps with a reason; unknown ones are refused.
for name, text, why in (("fails", "echo no idea >&2; exit 3", "exit code is 3: no idea"), ("hangs", "sleep 60", "took more than"),
                        ("silent", "true", "no source"), ("bad_notes", 'echo "{" > "$1/out/notes.json"', "notes.json")):
    agent = work / name
    agent.write_text(f"#!/bin/sh\n{text}\n")
    agent.chmod(0o755)
    out = json.loads(run("evolve", "silu_and_mul", "--agent", agent, "--verdicts", "2", "--agent-seconds", "1", "--run", work / f"run_{name}",
                         "--json", "--seed", "2", *short, code=None).stdout)
    assert out["ended"] == "the agent leaves no new programs" and len(out["steps"]) == 8, out["ended"]
    assert all(why in s["why"] for s in out["steps"][1:]), out["steps"][1]["why"]
for words, part in ((("silu_and_mul", "--agent", "mutat"), "did you mean `mutate`"), (("silu_and_mull",), "silu_and_mul"), ((), "needs an op"),
                    (("--replay", work), "no run"), (("silu_and_mul", "--device", "cud:0"), "cud")):
    assert part in run("evolve", *words, code=2).stderr, words
assert "the run is about" in run("evolve", "rms_norm", "--run", first, code=2).stderr

# Training records of all of this.
lines = [json.loads(line) for line in run("trajectories", "export").stdout.splitlines()]
assert len(lines) >= 4 and len({frozenset(line) for line in lines}) == 1 and {line["split"] for line in lines} == {lines[0]["split"]}
refined = [line for line in lines if line["state"]["parent"]]
assert refined and all(line["state"]["source"] and line["state"]["feedback"] and line["action"]["diff"].startswith("--- ") for line in refined)
failed = [line for line in lines if line["result"]["status"] == "compile_error"]
assert failed and all(line["reward"] == {"value": -2, "low": -2, "high": -2} for line in failed)
assert all(line["provenance"]["license"] == "NOASSERTION" and line["provenance"]["author"] for line in lines)
for kind, keys in (("supervised", {"completion", "gain"}), ("preferences", {"chosen", "rejected"}), ("rewards", {"completion", "reward"})):
    done = run("trajectories", "export", "--kind", kind, "--min-gain", "0.01", "--min-low", "0", "--output", work / f"{kind}.jsonl")
    records = [json.loads(line) for line in (work / f"{kind}.jsonl").read_text().splitlines()]
    assert f"{len(records)} lines" in done.stdout and records and all(keys <= set(r) for r in records), (kind, records)
assert run("trajectories", "export", "--license", "MIT").stdout == ""
shutil.rmtree(work)
