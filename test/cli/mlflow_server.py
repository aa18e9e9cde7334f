#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mlflow_server.py FK_HOST SOURCE_DIR GOOD_PLUGIN: --mlflow keeps a result while the server is down, sends it later and once, and goes on where a
server broke down in the middle (a stand-in counts the requests). A real server (`mlflow server` of PyPI, found in PATH or at FK_MLFLOW) then has
runs with parameters, metrics and files, and versions of accepted kernels with their lineage. Without it this part is left out, and the test says so."""
import http.server, json, os, pathlib, shutil, signal, socket, subprocess, sys, tempfile, threading, time, urllib.request

host, source, good = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
work = pathlib.Path(tempfile.mkdtemp())
(work / "candidates").mkdir()
env = dict(os.environ, FK_CANDIDATES=str(work / "candidates"), FK_CACHE=str(work / "cache"), FK_DATA=str(work / "data"), NO_PROXY="127.0.0.1")
env.pop("XDG_DATA_HOME", None)
spool = work / "data/mlflow"


def call(*words, code=0):
    done = subprocess.run([host, *map(str, words)], env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == code, (words, done.returncode, done.stdout[-1000:], done.stderr[-2000:])
    return done


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


kept = lambda: sorted(p.name for p in spool.iterdir()) if spool.exists() else []
bench = ("bench", good, "--op", "silu_and_mul", "--size", "smoke", "--seconds", "0.02")

# A wrong address is bad input, before the work. A server that is down changes no exit code and loses nothing.
assert "http://127.0.0.1:5000" in call(*bench, "--mlflow", "somewhere", code=2).stderr
uri = f"http://127.0.0.1:{free_port()}"
done = call(*bench, "--mlflow", uri, "--json", work / "verdict.json", "--trace", work / "trace.json")
assert "not sent" in done.stderr and "`fk-host mlflow`" in done.stderr and len(kept()) == 1, (done.stderr, kept())
folder = spool / kept()[0]
assert json.loads((folder / "document.json").read_text()) == json.loads((work / "verdict.json").read_text())
assert [f.read_bytes() for f in folder.rglob("trace.json")] == [(work / "trace.json").read_bytes()]
assert "0 of 1" in call("mlflow", code=3).stderr and len(kept()) == 1


class StandIn(http.server.BaseHTTPRequestHandler):
    seen, breaks_at = [], 6

    def answer(self):
        length = int(self.headers.get("Content-Length", 0))
        body, path = self.rfile.read(length), self.path.split("?")[0]
        broken = len(self.seen) + 1 == self.breaks_at
        self.seen.append(path.rsplit("/", 1)[-1])
        reply = {} if not broken else {"error_code": "INTERNAL_ERROR"}
        if path.endswith("experiments/create"):
            reply = {"experiment_id": "1"}
        if path.endswith("runs/create"):
            reply = {"run": {"info": {"run_id": "abc", "artifact_uri": "mlflow-artifacts:/1/abc/artifacts"}}}
        missing = path.endswith("get-by-name")
        text = json.dumps({"error_code": "RESOURCE_DOES_NOT_EXIST"} if missing else reply).encode()
        self.send_response(404 if missing else 500 if broken else 200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = answer

    def log_message(self, *words):
        pass


stand_in = http.server.ThreadingHTTPServer(("127.0.0.1", int(uri.rsplit(":", 1)[1])), StandIn)
threading.Thread(target=stand_in.serve_forever, daemon=True).start()
assert "answers 500" in call("mlflow", code=3).stderr and len(kept()) == 1
assert "1 of 1" in call("mlflow").stdout and not kept() and "trace.json" in StandIn.seen, StandIn.seen
seen = StandIn.seen
assert seen.count("create") == 2 and seen.count("log-batch") == 1 and seen.count("update") == 1, seen  # an experiment and a run, once
assert all(seen.count(name) == (2 if seen.index(name) == StandIn.breaks_at - 1 else 1) for name in ("document.json", "report.html", "good.so")), seen
stand_in.shutdown()

program = os.environ.get("FK_MLFLOW") or shutil.which("mlflow")
if not program:
    sys.exit(print("left out: there is no mlflow to send results to (pip install mlflow, FK_MLFLOW=/path/to/mlflow)"))
uri = f"http://127.0.0.1:{free_port()}"
log = open(work / "server.log", "w")
server = subprocess.Popen([program, "server", "--host", "127.0.0.1", "--port", uri.rsplit(":", 1)[1], "--workers", "1", "--backend-store-uri", f"sqlite:///{work}/m.db",
                           "--artifacts-destination", str(work / "artifacts")], stdout=log, stderr=log, cwd=work, start_new_session=True, env=env)


def ask(name, body=None):
    request = urllib.request.Request(f"{uri}/api/2.0/mlflow/{name}", data=json.dumps(body).encode() if body else None, headers={"Content-Type": "application/json"})
    return json.loads(urllib.request.urlopen(request, timeout=60).read())


def files(run, path=""):
    for entry in ask(f"artifacts/list?run_id={run}&path={path}").get("files", []):
        yield from files(run, entry["path"]) if entry["is_dir"] else [entry["path"]]


def runs(experiment):
    number = ask(f"experiments/get-by-name?experiment_name={experiment}")["experiment"]["experiment_id"]
    return ask("runs/search", {"experiment_ids": [number]})["runs"]


try:
    end = time.monotonic() + 240
    while True:
        try:
            urllib.request.urlopen(uri + "/health", timeout=5)
            break
        except OSError:
            assert server.poll() is None and time.monotonic() < end, (work / "server.log").read_text()[-2000:]
            time.sleep(0.5)
    # A verdict.
    call(*bench, "--mlflow", uri, "--json", work / "verdict.json")
    verdict = json.loads((work / "verdict.json").read_text())
    assert not kept()
    (run,) = runs("fk-host%20bench")
    metrics = {m["key"]: m["value"] for m in run["data"]["metrics"]}
    params = {p["key"]: p["value"] for p in run["data"]["params"]}
    assert run["info"]["status"] == "FINISHED" and run["info"]["run_name"] == "good", run["info"]
    assert abs(metrics["speedup"] - verdict["aggregate"]["ratio"]["value"]) < 1e-12 and metrics["right"] == verdict["aggregate"]["right"], metrics
    assert params["sha256"] == verdict["candidate"]["sha256"] and params["policy.size"] == "smoke" and params["device"] == verdict["device"], params
    names = set(files(run["info"]["run_id"]))
    assert {"document.json", "report.html", "kernels/good/good.so"} <= names, names
    if verdict["receipt"]:
        assert f"kernels/good/{verdict['receipt']}.json" in names, names
    # A scenario, and an evaluation with its sources.
    call("run", source / "scenarios/smoke", "--device", "cpu", "--mlflow", uri)
    (run,) = runs("fk-host%20run")
    assert {p["key"]: p["value"] for p in run["data"]["params"]}["scenario"] == "smoke" and any(m["key"].startswith("round_s/baseline/") for m in run["data"]["metrics"]), run
    submission = work / "submission"
    submission.mkdir()
    shutil.copy(good, submission / "good.so")
    (submission / "good.c").write_text("// its source\n")
    (submission / "manifest.yaml").write_text("submission: one\nauthor: me\nkind: human\nplugins: {good.so: [silu_and_mul]}\n")
    (work / "short.yaml").write_text("suite: short\nops: {size: smoke, seconds: 0}\nmodels: {scenarios: [smoke], profile: tiny}\n")
    call("eval", work / "short.yaml", "--candidates", submission, "--device", "cpu", "--mlflow", uri)
    (run,) = runs("fk-host%20eval%20short")
    assert {m["key"]: m["value"] for m in run["data"]["metrics"]}["coverage"] == 1, run
    assert {"kernels/one/good.so", "kernels/one/good.c", "kernels/one/manifest.yaml", "report.html"} <= set(files(run["info"]["run_id"]))
    # Accepted kernels are versions; the same kernel is no second one, and a later one names its parent.
    for digest, expected in (("a" * 64, 1), ("a" * 64, 1), ("b" * 64, 2)):
        verdict.update(status="faster", candidate=dict(verdict["candidate"], name="swift", path=str(good), sha256=digest))
        (work / "faster.json").write_text(json.dumps(verdict))
        call("report", work / "faster.json", "--mlflow", uri)
        versions = ask("model-versions/search?filter=name%3D'swift'")["model_versions"]
        assert len(versions) == expected, versions
    newest = max(versions, key=lambda v: int(v["version"]))
    tags = {t["key"]: t["value"] for t in newest["tags"]}
    assert tags["fk-host.parent_version"] == "1" and tags["fk-host.sha256"] == digest and tags["fk-host.ops"] == "silu_and_mul", tags
    assert newest["run_id"] in {r["info"]["run_id"] for r in runs("fk-host%20bench")} and newest["source"].endswith("/kernels/swift"), newest
    assert [m["name"] for m in ask("registered-models/search")["registered_models"]] == ["swift"] and not kept()
finally:
    os.killpg(server.pid, signal.SIGTERM)
    server.wait(60)
