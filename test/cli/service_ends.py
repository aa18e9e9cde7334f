#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""service_ends.py FK_HOST SOURCE_DIR GOOD_PLUGIN BAD_PLUGINS_DIR: ends of jobs of `fk-host serve --http` for which no candidate is to blame.
Fails when a failure of the machine becomes a verdict, when a job runs twice, when the end of a job is lost because the queue's file was
locked, when one client's jobs push out another's, when a job gets sockets of the server, when a killed judge stays away, or when `bench
--remote` gives up at a server which is away for a moment."""
import atexit, contextlib, http.server, json, os, pathlib, shutil, sqlite3, subprocess, sys, tempfile, threading, urllib.request

host, source, good, bad = sys.argv[1], *map(pathlib.Path, sys.argv[2:5])
sys.path += [str(source / "scripts"), str(source / "scripts/judge")]
from fk_client import Client, ServiceError
from service_processes import Place, Server, processes_with, wait

work = pathlib.Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, work, True)
rustc, calls = work / "rustc", work / "calls"
rustc.write_text(f'#!/bin/sh\necho x >> {calls}\n[ $(wc -l < {calls}) -gt $(cat {work}/failures) ] && echo {work}\n')
rustc.chmod(0o755)
(work / "tokens").write_text("ann 0123456789abcdef-ann\nbob 0123456789abcdef-bob\n")
(work / "tokens").chmod(0o600)
place = Place(host, work, dict(os.environ, FK_DATA=str(work / "data"), FK_CACHE=str(work / "cache"), RUSTC=str(rustc), FK_ENDS=str(work)))
queue = work / "queue"
server = Server(place, queue, "--tokens", str(work / "tokens"), "--log-json")
atexit.register(lambda: server.process.kill())
ann, bob = (Client(server.url, f"0123456789abcdef-{name}") for name in ("ann", "bob"))


def logged():
    return [json.loads(line) for line in (work / "server.log").read_text().splitlines()]


def begun(id, stage):
    """How often a stage of this job began."""
    return sum(line["text"] == "a stage of a job begins" and line["job"] == id and line["stage"] == stage for line in logged())


def runs(id, stage):
    job = ann.job(id)
    return (job["state"], job["stage"]) == ("running", stage)


def sockets(pid):
    out = set()
    for entry in pathlib.Path(f"/proc/{pid}/fd").glob("*"):
        with contextlib.suppress(OSError):
            out |= {name for name in [os.readlink(entry)] if name.startswith("socket:")}
    return out


# A compiler which fails for a reason of the machine: the job runs again, and has its verdict. Else it fails with the judge's words.
for failures, state, status, starts in ((1, "done", "compile_error", 2), (9, "failed", "", 3)):
    (work / "failures").write_text(str(failures))
    calls.unlink(missing_ok=True)
    (work / "silu_and_mul.rs").write_text(f"fk::op!() // {failures}\n")
    job = ann.wait(ann.submit(work / "silu_and_mul.rs", size="smoke", seconds=0)["id"], 120)
    assert (job["state"], job["status"], job["starts"]) == (state, status, starts), (job, ann.log(job["id"]))
    assert ("does not answer" in job["why"]) == (state == "failed"), job
assert [(one["status"], one["ended"]) for one in ann.ask("GET", "/v1/state")["statuses"]] == [("compile_error", 1), ("failed", 1)]
print("ok    a machine that fails", flush=True)

# A job is cancelled while it is timed, and submitted again at once. Its new check begins before the old timing has ended, and once.
norm = source / "candidates/example_rms_norm/rms_norm.cpp"  # its check compiles, so it lasts longer than the end of the timing
for turn in range(3):
    body = {"name": "example_rms_norm", "seconds": 30, "size": "smoke", "budget_s": 300 + turn}
    job = ann.submit(norm, **body)
    wait(lambda: runs(job["id"], "time"), lambda: ann.job(job["id"]), 120)
    ann.cancel(job["id"])
    assert ann.submit(norm, **body)["id"] == job["id"]
    wait(lambda: runs(job["id"], "time"), lambda: ann.job(job["id"]), 120)
    assert begun(job["id"], "check") == 2 and begun(job["id"], "time") == 2, logged()
    assert [path.name for path in (queue / "right").glob("*")] == [], list((queue / "right").glob("*"))
    assert ann.cancel(job["id"])["state"] == "cancelled"
print("ok    a job that is cancelled and submitted again", flush=True)

# The jobs of a server have its sockets neither open nor in their children.
job = ann.submit(bad / "bad_hang.so", patience_s=200, size="smoke", seconds=0)
wait(lambda: runs(job["id"], "check"), lambda: ann.job(job["id"]), 60)
below = [pid for pid, words in processes_with("FK_ENDS", work) if pid != server.process.pid]
own = sockets(server.process.pid)
assert own and any(" bench " in words for _, words in processes_with("FK_ENDS", work)), below
shared = {pid: own & sockets(pid) for pid in below if own & sockets(pid)}
assert not shared, (shared, processes_with("FK_ENDS", work))
print("ok    sockets", flush=True)

# The queue's file is locked when a job ends: its end comes later.
with contextlib.closing(sqlite3.connect(queue / "queue.sqlite", isolation_level=None)) as other:
    other.execute("BEGIN IMMEDIATE")
    for pid, words in processes_with("FK_ENDS", work):
        if " bench " in words:
            os.kill(pid, 9)
    wait(lambda: any("cannot be used" in line["text"] and "tried again" in line["text"] for line in logged()), logged, 60)
    other.execute("ROLLBACK")
wait(lambda: begun(job["id"], "check") == 2 and runs(job["id"], "check"), lambda: (ann.job(job["id"]), logged()), 60)
assert ann.cancel(job["id"])["state"] == "cancelled"
print("ok    a queue that is locked", flush=True)

# The server remembers 10,000 ended jobs of each client.
old = ann.submit(good, name="old", size="smoke", seconds=0)["id"]
assert ann.wait(old)["status"] == "correct"
known = ann.jobs()
with contextlib.closing(sqlite3.connect(queue / "queue.sqlite")) as other:
    row = "INSERT INTO jobs(id, client, name, state, bytes, submitted, stage) VALUES(?, 'bob', '', 'cancelled', 0, '', ?)"
    other.executemany(row, [(str(i), ("check", "time")[i % 2]) for i in range(10_010)])
    other.commit()
assert bob.wait(bob.submit(good, name="new", size="smoke", seconds=0)["id"])["status"] == "correct"
assert ann.result(old)["status"] == "correct" and ann.jobs() == known
assert [len(bob.jobs(1000, skip)) for skip in (0, 9_000, 9_999, 10_000)] == [1000, 1000, 1, 0]
try:
    bob.job("10")
except ServiceError as error:
    assert error.status == 404
else:
    raise AssertionError("the oldest job is not forgotten")
assert bob.job("11")["state"] == "cancelled"
print("ok    a client that fills the queue", flush=True)

# A killed process with the oracle is started again.
for words in ("serve --device cpu ", "serve --device cpu --checks "):
    judges = lambda: [pid for pid, line in processes_with("FK_ENDS", work) if line == "fk-host " + words]
    [killed] = judges()
    os.kill(killed, 9)
    wait(lambda: judges() not in ([], [killed]), lambda: processes_with("FK_ENDS", work), 60)
assert ann.wait(ann.submit(good, name="after", size="smoke", seconds=0)["id"])["status"] == "correct"
print("ok    a killed judge", flush=True)


# A server which has no answer when `bench --remote` asks for the verdict is asked again.
class Between(http.server.BaseHTTPRequestHandler):
    refused = 0

    def do_GET(self):
        if self.path.endswith("/result") and not Between.refused:
            Between.refused += 1
            return self.answer(503, b"{}")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {"Authorization": self.headers["Authorization"], "Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(server.url + self.path, body or None, headers)) as found:
            self.answer(found.status, found.read())

    do_POST = do_GET

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


between = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Between)
threading.Thread(target=between.serve_forever, daemon=True).start()
done = subprocess.run([host, "bench", str(good), "--remote", f"http://127.0.0.1:{between.server_port}", "--size", "smoke", "--seconds", "0"],
                      env=dict(place.env, FK_TOKEN="0123456789abcdef-ann"), capture_output=True, text=True, timeout=120)
assert done.returncode == 0 and "correct" in done.stdout and Between.refused == 1, done
print("ok    a server that is away for a moment", flush=True)
assert server.end() == 0
wait(lambda: not processes_with("FK_ENDS", work), lambda: processes_with("FK_ENDS", work), 30)
