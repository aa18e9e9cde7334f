#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""service.py FK_HOST SOURCE_DIR GOOD_PLUGIN BAD_PLUGINS_DIR: `fk-host serve --http` answers clients on loopback, whatever they
send, and whatever becomes of the server. Fails when a job is lost or answered wrongly, or when a process or file stays."""
import atexit, contextlib, http.client, json, os, pathlib, shutil, signal, socket, sqlite3, ssl, subprocess, sys, tempfile, threading, time

host, source, good, bad = sys.argv[1], *map(pathlib.Path, sys.argv[2:5])
sys.path.insert(0, str(source / "scripts"))
from fk_client import Client, ServiceError

work = pathlib.Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, work, True)
env = dict(os.environ, FK_DATA=str(work / "data"), FK_CACHE=str(work / "cache"), FK_SERVICE_TEST=str(work))
tokens = work / "tokens"
tokens.write_text("# clients\nann 0123456789abcdef-ann\nbob 0123456789abcdef-bob\n")
tokens.chmod(0o600)
quick = {"size": "smoke", "seconds": 0}
shared_before = set(os.listdir("/dev/shm"))


class Server:
    def __init__(self, *words, log=subprocess.PIPE):
        words = [host, "serve", "--http", "127.0.0.1:0", "--client-jobs", "4", "--body-mib", "1", *map(str, words)]
        self.process = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=log, text=True)
        atexit.register(self.process.kill)
        line = self.process.stdout.readline()
        assert " of http" in line, line + (self.process.stderr.read() if self.process.stderr else "")
        self.url = line.split()[-1]

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(60)


def wait(done, what=lambda: "it does not happen", seconds=60):
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, what()
        time.sleep(0.05)


def processes():
    """Processes of this test's servers, by the environment which they inherit."""
    out = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if entry.name != str(os.getpid()) and f"FK_SERVICE_TEST={work}".encode() in (entry / "environ").read_bytes():
                out.append(entry.name)
        except OSError:
            pass
    return out


def fault(status, action, *words, **more):
    try:
        action(*words, **more)
    except ServiceError as error:
        assert error.status == status, error
        return error
    raise AssertionError(f"no error {status}")


def raw(port, data):
    with socket.create_connection(("127.0.0.1", port)) as peer:
        peer.settimeout(60)
        peer.sendall(data)
        return peer.recv(4096).decode()


def remote(url, token, *words):
    return subprocess.run([host, "bench", *map(str, words), "--remote", url, "--size", "smoke", "--seconds", "0"],
                          env=dict(env, FK_TOKEN=token), capture_output=True, text=True, timeout=120)


def top(url, token, *words):
    return subprocess.run([host, "top", url, *words], env=dict(env, FK_TOKEN=token), check=True, capture_output=True, text=True, timeout=60).stdout


def plugin(name):
    return bad / f"bad_{name}.so"


# Bad starts: addresses that other machines reach, files that others read.
def refused(*words):
    done = subprocess.run([host, "serve", "--http", *map(str, words)], env=env, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


assert refused("nonsense")[0] == 2 and refused("127.0.0.1:99999")[0] == 2
code, said = refused("0.0.0.0:0", "--tokens", tokens)
assert code == 2 and "--certificate" in said, said
(work / "open").write_text("eve 0123456789abcdef-eve\n")
(work / "open").chmod(0o644)
code, said = refused("127.0.0.1:0", "--tokens", work / "open")
assert code == 2 and "chmod 600" in said, said

first_log = open(work / "first_log", "w")
server = Server("--tokens", tokens, "--log-json", log=first_log)
port = int(server.url.rsplit(":", 1)[1])
ann, bob = Client(server.url, "0123456789abcdef-ann"), Client(server.url, "0123456789abcdef-bob")
stranger = Client(server.url)
code, said = refused("127.0.0.1:0")
assert code == 3 and "another server has this queue" in said, (code, said)

# Tokens. Health and the description need none.
assert stranger.ask("GET", "/health") == {"status": "ok"}
assert "/v1/jobs/{id}/events" in stranger.ask("GET", "/openapi.json")["paths"]
for client in (stranger, Client(server.url, "0123456789abcdef-an"), Client(server.url, "ann")):
    fault(401, client.jobs)
    fault(401, client.text, "/metrics")
    fault(401, client.submit, good, **quick)

# Right, wrong, repeated; a source that compiles and one that does not; no plugin at all.
job = ann.submit(good, **quick)
assert job["state"] in ("queued", "running") and job["name"] == good.stem, job
assert ann.wait(job["id"])["status"] == "correct"
verdict = ann.result(job["id"])
assert verdict["schema"].startswith("fk-host.verdict/") and verdict["status"] == "correct", verdict
assert "correct" in ann.log(job["id"])
again = ann.submit(good, **quick)
assert again["id"] == job["id"] and again["state"] == "done" and again["starts"] == 1, again
other = bob.submit(good, **quick)
assert other["id"] != job["id"] and bob.wait(other["id"])["status"] == "correct"
fault(404, bob.job, job["id"])
assert [one["id"] for one in bob.jobs()] == [other["id"]]
wrong = ann.submit(plugin("value"), **quick)
assert ann.wait(wrong["id"])["status"] == "wrong" and ann.result(wrong["id"])["status"] == "wrong"
garbage = work / "garbage.so"
garbage.write_bytes(b"\x7fELF" + bytes(range(256)) * 9)
assert ann.wait(ann.submit(garbage, **quick)["id"])["status"] == "load"
norm = source / "candidates/example_rms_norm/rms_norm.cpp"
made = ann.wait(ann.submit(norm, name="example_rms_norm", **quick)["id"])
assert made["status"] == "correct", (made, ann.log(made["id"]))
(work / "broken.cpp").write_text('#include "/etc/shadow"\n')
made = ann.wait(ann.submit(work / "broken.cpp")["id"])
assert made["status"] == "compile_error" and "root:" not in ann.log(made["id"]), made
made = ann.wait(ann.submit(good, ops=["nonsense"], **quick)["id"])
assert made["state"] == "failed" and "no op `nonsense`" in made["why"], made
assert "no op" in fault(409, ann.result, made["id"]).error["hint"]
fault(409, ann.cancel, made["id"])

# Bad requests.
for body, words in (({"nam": 1}, "`name`"), ({}, "needs either"), ({"source": "x", "language": "cp"}, "no language `cp`"), ([], "no object"),
                    ({"source": "x", "language": "c", "name": "../x"}, "letters"), ({"plugin": "?"}, "base64"),
                    ({"source": "x", "language": "c", "ops": ["--no-sandbox me"]}, "no name"),
                    ({"source": "x", "language": "c", "budget_s": 1e9}, "no number from"),
                    ({"source": "x", "language": "c", "seconds": "1"}, "no number")):
    assert words in str(fault(400, ann.ask, "POST", "/v1/jobs", body)), body
fault(400, ann.ask, "GET", "/v1/jobs?limit=-1")
fault(400, ann.ask, "GET", "/v1/jobs?limits=1")
fault(404, ann.ask, "GET", "/v1/nothing")
fault(404, ann.ask, "GET", "/v1/jobs/" + "0" * 64)
fault(404, ann.ask, "GET", f"/v1/jobs/{job['id']}/lgo")
assert fault(405, ann.ask, "PUT", "/v1/jobs").headers["Allow"] == "GET, POST"
head = b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer 0123456789abcdef-ann\r\n"
assert " 400 " in raw(port, head + b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{{")
assert " 415 " in raw(port, head + b"Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}")
assert " 413 " in raw(port, head + b"Content-Type: application/json\r\nContent-Length: 9999999\r\n\r\n")
assert " 401 " in raw(port, b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n")  # a stranger's body is not read
large = http.client.HTTPConnection("127.0.0.1", port, timeout=60)  # all of it is sent, and then the answer is read
large.request("POST", "/v1/jobs", b" " * (8 << 20), {"Authorization": "Bearer 0123456789abcdef-ann", "Content-Type": "application/json"})
assert large.getresponse().status == 413
assert " 431 " in raw(port, head + b"X: " + b"x" * 20000)
assert " 400 " in raw(port, b"nonsense\r\n\r\n")

# `bench --remote`: the same verdicts and exit codes as here.
done = remote(server.url, "0123456789abcdef-bob", norm.parent)
assert done.returncode == 0 and "correct" in done.stdout, done.stdout + done.stderr
done = remote(server.url, "0123456789abcdef-bob", plugin("value"), "--json")
assert done.returncode == 1 and json.loads(done.stdout)["status"] == "wrong", done.stdout + done.stderr
assert remote(server.url, "wrong", good).returncode == 2 and remote("http://127.0.0.1:1", "", good).returncode == 3
assert remote(server.url, "0123456789abcdef-bob", good, "--profile").returncode == 2

# A full queue: places, turns, limits, cancelling.
held = ann.submit(plugin("hang"), patience_s=200, size="smoke", seconds=0)
wait(lambda: ann.job(held["id"])["state"] == "running")
many = [ann.submit(good, name=f"a{i}", **quick) for i in range(3)]
assert [one["place"] for one in many] == [1, 2, 3], many
full = fault(429, ann.submit, good, name="a4", **quick)
assert int(full.headers["Retry-After"]) > 0, full
late = bob.submit(plugin("value"), name="late", **quick)
assert late["place"] == 1 and [ann.job(one["id"])["place"] for one in many] == [2, 3, 4], late  # it is bob's turn
assert ann.cancel(many[1]["id"])["state"] == "cancelled" and ann.job(many[2]["id"])["place"] == 3
assert ann.submit(good, name="a1", **quick)["state"] == "queued"  # a cancelled job can be asked for again
assert 'fk_client_jobs{client="ann",state="queued"} 3' in ann.text("/metrics")
seen = []
reader = threading.Thread(target=lambda: seen.extend(bob.events(late["id"])))
reader.start()
assert ann.cancel(held["id"])["state"] == "cancelled"
reader.join(120)
assert [one["state"] for one in seen][0] == "queued" and seen[-1]["status"] == "wrong", seen
for one in many:
    assert ann.wait(one["id"])["status"] == "correct"
assert ann.job(held["id"])["state"] == "cancelled"
begun = [line["job"] for line in map(json.loads, (work / "first_log").read_text().splitlines()) if line["text"] == "a stage of a job begins"]
order = [begun.index(one["id"]) for one in (late, many[0], many[2], many[1])]  # many[1] was asked for again, behind many[2]
assert order == sorted(order), order

# A wrong answer does not wait behind a timing: a right candidate waits to be timed in a queue of its own.
started = time.monotonic()
long = ann.submit(good, name="long", size="smoke", seconds=30)
wait(lambda: (lambda now: (now["stage"], now["state"]) == ("time", "running"))(ann.job(long["id"])), lambda: ann.job(long["id"]))
behind = ann.submit(norm, name="example_rms_norm", size="smoke", seconds=0.01)
wrong = ann.wait(ann.submit(plugin("value"), name="early", size="smoke", seconds=30, budget_s=500)["id"])  # no stored verdict
assert (wrong["status"], wrong["stage"]) == ("wrong", "check"), wrong
wait(lambda: ann.job(behind["id"])["stage"] == "time", lambda: ann.job(behind["id"]))
now = [ann.job(one["id"]) for one in (long, behind)]
assert [(one["state"], one["place"]) for one in now] == [("running", 0), ("queued", 1)], now
assert 'fk_jobs_waiting{stage="time"} 1' in ann.text("/metrics")
[right] = (work / "data/service/right").iterdir()
assert (right / "example_rms_norm/example_rms_norm.so").exists()
state = ann.ask("GET", "/v1/state")
assert [(lane["stages"], lane["client"]) for lane in state["lanes"]] == [("check", ""), ("time", "ann")], state["lanes"]
assert (state["waiting_check"], state["waiting_time"]) == (0, 1) and state["ended_minute"] > 0, state
assert {"name": "bob", "queued": 0, "running": 0}.items() <= [one for one in state["clients"] if one["name"] == "bob"][0].items(), state
page = top(server.url, "0123456789abcdef-ann")
assert "0 jobs wait for a check, 1 to be timed" in page and "\x1b" not in page and "idle" in page and "wrong" in page, page
document = json.loads(top(server.url, "0123456789abcdef-ann", "--json"))
assert document["schema"] == "fk-host.service/1" and document["lanes"][1]["seconds"] >= state["lanes"][1]["seconds"], document
assert ann.cancel(long["id"])["state"] == "cancelled"
timed = ann.wait(behind["id"])
verdict_of_time = ann.result(behind["id"])
assert timed["status"] in ("faster", "same", "slower", "cannot_tell") and timed["starts"] == 1, timed
assert verdict_of_time["candidate"]["path"].endswith("example_rms_norm.so") and not right.exists(), verdict_of_time["candidate"]
behind = ann.submit(good, name="again", size="smoke", seconds=30)  # a cancelled timing leaves nothing
wait(lambda: ann.job(behind["id"])["state"] == "running" and ann.job(behind["id"])["stage"] == "time")
ann.cancel(behind["id"])

# Killed while one runs and others wait, twice; then nothing is lost.
held = ann.submit(plugin("hang"), name="held", patience_s=200, size="smoke", seconds=0)
rest = [ann.submit(good, name="r1", **quick)["id"], ann.submit(plugin("value"), name="r2", **quick)["id"]]
for starts in (1, 2):
    wait(lambda: ann.job(held["id"])["state"] == "running")
    assert ann.job(held["id"])["starts"] == starts
    assert server.end(signal.SIGKILL) != 0
    wait(lambda: not processes(), processes)
    server = Server("--tokens", tokens)
    ann, bob = Client(server.url, "0123456789abcdef-ann"), Client(server.url, "0123456789abcdef-bob")
assert ann.job(job["id"])["status"] == "correct" and ann.result(job["id"]) == verdict
wait(lambda: ann.job(held["id"])["state"] == "running")
ann.cancel(held["id"])
assert [ann.wait(one)["status"] for one in rest] == ["correct", "wrong"]
assert [ann.job(one)["starts"] for one in rest] == [1, 1]

# Told to end while a job runs: at once, and the job waits for the next server. TLS, without tokens.
held = ann.submit(plugin("hang"), name="held2", patience_s=200, size="smoke", seconds=0)
wait(lambda: ann.job(held["id"])["state"] == "running")
assert server.end() == 0
wait(lambda: not processes(), processes)
pair = [work / "cert.pem", work / "key.pem"]
subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-addext",
                "subjectAltName=IP:127.0.0.1", "-out", pair[0], "-keyout", pair[1]], check=True, capture_output=True)
server = Server("--tokens", tokens, "--certificate", pair[0], "--key", pair[1])
assert server.url.startswith("https:")
ann = Client(server.url, "0123456789abcdef-ann", certificate=str(pair[0]))
wait(lambda: ann.job(held["id"])["state"] == "running")
assert ann.job(held["id"])["starts"] == 1  # an orderly end is no failed start
assert ann.cancel(held["id"])["state"] == "cancelled"
assert ann.wait(ann.submit(good, name="tls", **quick)["id"])["status"] == "correct"
assert server.end() == 0
server = Server("--queue", work / "own")  # without tokens: a client of this machine, by this machine's name
port = int(server.url.rsplit(":", 1)[1])
assert " 200 " in raw(port, b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n\r\n")
assert " 401 " in raw(port, b"GET /v1/jobs HTTP/1.1\r\nHost: evil.example\r\n\r\n")
assert server.end(signal.SIGINT) == 0

# A queue of the first version, whose jobs have no stage: its job is judged.
with contextlib.closing(sqlite3.connect(work / "own/queue.sqlite")) as old:
    old.executescript("""DROP TRIGGER job_ends; DROP TRIGGER job_goes; DROP TABLE texts; DROP INDEX jobs_by_stage;
        ALTER TABLE jobs ADD COLUMN request TEXT NOT NULL DEFAULT ''; ALTER TABLE jobs ADD COLUMN document TEXT NOT NULL DEFAULT '';
        ALTER TABLE jobs ADD COLUMN log TEXT NOT NULL DEFAULT '';
        ALTER TABLE jobs DROP COLUMN stage; ALTER TABLE clients DROP COLUMN time_turn;
        CREATE INDEX jobs_by_state ON jobs(state, client, number); PRAGMA user_version=1;
        INSERT INTO clients(client) VALUES('127.0.0.1')""")
    request = json.dumps({"name": "old", "source": "int x = ;", "language": "cpp"})
    old.execute("INSERT INTO jobs(id, client, name, state, request, bytes, submitted) VALUES('1', '127.0.0.1', 'old', 'running', ?, 9, '')",
                [request])
    old.commit()
with open(work / "log", "w") as log:
    server = Server("--queue", work / "own", "--log-json", log=log)
assert Client(server.url).wait("1")["status"] == "compile_error"
assert server.end() == 0
lines = [json.loads(line) for line in (work / "log").read_text().splitlines()]
assert [(line["text"], line["job"]) for line in lines] == [("a stage of a job begins", "1"), ("a job ended", "1")], lines
assert lines[1]["status"] == "compile_error" and float(lines[1]["seconds"]) > 0 and lines[1]["level"] == "info", lines

# Nothing stays but the queue and headers.
wait(lambda: not processes(), processes)
assert set(os.listdir("/dev/shm")) <= shared_before
left = {entry.relative_to(work / "data/service").as_posix() for entry in (work / "data/service").rglob("*") if entry.is_file()}
left = {name for name in left if not name.startswith("device0/cache/headers/")}
assert left <= {"queue.lock", "queue.sqlite"}, left
print("the service answers, and loses nothing")
