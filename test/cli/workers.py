#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""workers.py FK_HOST SOURCE_DIR: workers take jobs of `fk-host serve --http --redis` from Debian's redis-server on loopback. Fails when a
job is lost, answered twice or answered wrongly although workers, the server or Redis die, or when a process, file or task stays.
77: there is no redis-server, or the build has no hiredis or no SQLite."""
import atexit, contextlib, os, pathlib, re, shutil, signal, socket, sqlite3, subprocess, sys, tempfile, time, urllib.request

host, source = sys.argv[1], pathlib.Path(sys.argv[2])
sys.path.insert(0, str(source / "scripts"))
from fk_client import Client

if not shutil.which("redis-server") or not shutil.which("redis-cli"):
    print("skipped: redis-server is not installed (Debian: redis-server)")
    sys.exit(77)
tried = subprocess.run([host, "work", "--redis", "redis://127.0.0.1:port"], capture_output=True, text=True, timeout=60)
if tried.returncode == 3 and "has no Redis" in tried.stderr and "libhiredis-dev" in tried.stderr:
    print("skipped: this build has no Redis (Debian: libhiredis-dev)")
    sys.exit(77)

work = pathlib.Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, work, True)
env = dict(os.environ, FK_DATA=str(work / "data"), FK_CACHE=str(work / "cache"), FK_WORKERS_TEST=str(work), FK_LOG="info")
env.pop("FK_REDIS", None)
password = "a pass:word/of@tests"
template = (source / "plugin_api/template/ops/silu_and_mul.cpp").read_text()
CLAIM_S = 3


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait(done, what, seconds=90):
    end = time.monotonic() + seconds
    while not (found := done()):
        assert time.monotonic() < end, f"{what() if callable(what) else what}\n" + logs()
        time.sleep(0.05)
    return found


def logs():
    return "\n".join(f"--- {f.name}\n{f.read_text(errors='replace')[-3000:]}" for f in sorted(work.glob("*.log")))


def processes():
    out = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(entry.name) != os.getpid() and f"FK_WORKERS_TEST={work}".encode() in (entry / "environ").read_bytes() and (entry / "cmdline").read_bytes():
                out.append((int(entry.name), (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")))
    return out


class RedisServer:
    def __init__(self):
        self.port = free_port()
        (work / "redis").mkdir()
        self.start()

    def start(self):
        self.process = subprocess.Popen(["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(work / "redis"), "--requirepass", password,
                                         "--appendonly", "yes", "--appendfsync", "always", "--save", ""], stdout=open(work / "redis.log", "a"), stderr=subprocess.STDOUT)
        atexit.register(self.process.kill)
        wait(lambda: self.cli("PING") == "PONG", "redis-server does not start")

    def cli(self, *words):
        done = subprocess.run(["redis-cli", "-p", str(self.port), *words], env=dict(os.environ, REDISCLI_AUTH=password), capture_output=True, text=True, timeout=30)
        return done.stdout.strip()

    def kill(self):
        self.process.kill()
        self.process.wait(30)


redis = RedisServer()
coded = password.replace("%", "%25").replace(" ", "%20").replace("/", "%2F").replace("@", "%40").replace(":", "%3A")
url, plain = f"redis://:{coded}@127.0.0.1:{redis.port}/0", f"redis://127.0.0.1:{redis.port}"


class Server:
    def __init__(self, folder="queue", address="127.0.0.1:0", *words):
        self.log = open(work / f"server.{folder}.log", "a")
        self.process = subprocess.Popen([host, "serve", "--http", address, "--redis", plain, "--queue", str(work / folder), *words], env=dict(env, REDISCLI_AUTH=password), stdout=subprocess.PIPE,
                                        stderr=self.log, text=True)
        atexit.register(self.process.kill)
        line = self.process.stdout.readline()
        if not line and "has no SQLite" in logs():
            print("skipped: this build has no SQLite (Debian: libsqlite3-dev)")
            sys.exit(77)
        assert line.startswith("judging on ") and " of http" in line, line + logs()
        self.url = line.split()[-1]
        self.client = Client(self.url, timeout=30)
        urllib.request.urlopen(self.url + "/health", timeout=30).read()  # SIGTERM ends it in order from now on

    def kill(self):
        self.process.kill()
        self.process.wait(30)


class Worker:
    count = 0

    def __init__(self, *words):
        Worker.count += 1
        # A data folder of its own, as on another machine: so no stored verdict answers for it.
        self.folder = work / f"worker{Worker.count}"
        self.file = work / f"worker{Worker.count}.log"
        self.process = subprocess.Popen([host, "work", "--claim", str(CLAIM_S), *words], env=dict(env, FK_REDIS=url, FK_DATA=str(self.folder)), stdout=subprocess.PIPE,
                                        stderr=open(self.file, "w"), text=True)
        atexit.register(self.process.kill)
        assert "judging on cpu for the server at redis://127.0.0.1" in (line := self.process.stdout.readline()), line + logs()

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(60)


submitted = 0


def submit(server, kind="right", seconds=0):
    """A job of this kind; `slow` takes some seconds."""
    global submitted
    submitted += 1
    name = f"{kind}_{submitted}"
    text = template.replace("* up[i]", "+ up[i]") if kind == "wrong" else template + "\nint x = ;\n" if kind == "broken" else template
    if kind == "slow":
        text = "#include <unistd.h>\n" + re.sub(r"(void forward\([^)]*\)[^{]*\{)", r"\1 usleep(40000);", text, count=1)
    text = re.sub(r'FK_PLUGIN\("[^"]*"', f'static const int kNumber = {submitted};\n[[maybe_unused]] static const int* kUsed = &kNumber;\nFK_PLUGIN("{name}"', text, count=1)
    return server.client.ask("POST", "/v1/jobs", {"name": name, "source": text, "language": "cpp", "size": "smoke", "seconds": seconds})["id"]


def running(server, id):
    """The worker which has the job."""
    job = wait(lambda: (j := server.client.job(id))["state"] != "queued" and "@" in j["device"] and j, lambda: f"no worker has it: {server.client.job(id)}")
    assert job["state"] == "running", job
    return job["device"]


def ended(server, id, *expected):
    job = wait(lambda: (j := server.client.job(id))["state"] in ("done", "failed") and j, lambda: f"no end: {server.client.job(id)}")
    assert job["state"] == "done" and job["status"] in expected, (job, logs())
    assert server.client.result(id)["status"] == job["status"]
    return job


def worker_of(device, workers):
    return next(w for w in workers if f".{w.process.pid}." in device)


# Without a worker a job waits, and the state says so.
server = Server()
first = submit(server)
assert server.client.job(first)["state"] == "queued" and not server.client.ask("GET", "/v1/state")["lanes"]
workers = [Worker(), Worker()]
assert "@" in ended(server, first, "correct")["device"]
wait(lambda: len(server.client.ask("GET", "/v1/state")["lanes"]) == 2, "two workers are no lanes")
ids = {submit(server, kind): status for kind, status in (("wrong", "wrong"), ("broken", "compile_error"), ("right", "correct"), ("wrong", "wrong"))}
for id, status in ids.items():
    ended(server, id, status)
ended(server, submit(server, "right", 0.01), "faster", "same", "slower", "cannot_tell")  # a check and a timing
metrics = urllib.request.urlopen(server.url + "/metrics", timeout=30).read().decode()
assert "fk_workers 2\n" in metrics and "fk_redis_up 1\n" in metrics and 'fk_worker_tasks_total{end="ended"} 7' in metrics, metrics
print("ok    verdicts by two workers", flush=True)

# A killed worker's job is taken over.
id = submit(server, "slow")
victim = worker_of(running(server, id), workers)
victim.process.kill()
victim.process.wait(30)
workers.remove(victim)
device = ended(server, id, "correct")["device"]
assert worker_of(device, workers), device
print("ok    a killed worker", flush=True)

# A worker that is asked to end gives its job back at once.
workers.append(Worker())
id = submit(server, "slow")
victim = worker_of(running(server, id), workers)
assert victim.end() == 0, logs()
workers.remove(victim)
ended(server, id, "correct")
assert not list(victim.folder.glob("workers/*")), list(victim.folder.glob("workers/*"))
print("ok    a worker that ends", flush=True)

# A cancelled job leaves its worker.
id = submit(server, "slow")
running(server, id)
assert server.client.ask("DELETE", f"/v1/jobs/{id}")["state"] == "cancelled"
wait(lambda: "was cancelled" in workers[0].file.read_text() + workers[-1].file.read_text(), "the worker goes on with a cancelled job")
ended(server, submit(server), "correct")
print("ok    a cancelled job", flush=True)

# The server dies: its next life finds the task at its worker, and gets the end from there.
id = submit(server, "slow")
device = running(server, id)
server.kill()
server = Server(address=server.url.split("//")[1])
assert ended(server, id, "correct")["device"] == device, logs()
print("ok    a killed server", flush=True)

# Redis dies and comes back with its data; then it loses all of it.
for lost in (False, True):
    workers += [Worker()] if lost else []
    id = submit(server, "slow")
    running(server, id)
    redis.kill()
    if lost:
        shutil.rmtree(work / "redis/appendonlydir")
    wait(lambda: "fk_redis_up 0\n" in urllib.request.urlopen(server.url + "/metrics", timeout=30).read().decode(), "the server does not miss Redis")
    later = submit(server)
    redis.start()
    ended(server, id, "correct")
    ended(server, later, "correct")
    print(f"ok    Redis dies{' and forgets' if lost else ''}", flush=True)

# One server has a database. A wrong password is said.
other = Server("other")
wait(lambda: "another server works with this database" in (work / "server.other.log").read_text(), "a second server is not refused")
assert other.process.terminate() is None and other.process.wait(60) == 0
strange = subprocess.Popen([host, "work", "--redis", f"redis://:wrong@127.0.0.1:{redis.port}"], env=env, stdout=subprocess.DEVNULL, stderr=open(work / "strange.log", "w"))
wait(lambda: "WRONGPASS" in (work / "strange.log").read_text(), "a wrong password is not said")
assert "wrong@" not in (work / "strange.log").read_text(), "a password is in the log"
strange.terminate()
assert strange.wait(60) == 0
for words, said in ((["work"], "there is no address of Redis"), (["work", "--redis", "http://x"], "this is no address of Redis"),
                    (["work", "--redis", "redis://x:port"], "is no port"), (["serve", "--redis", url], "it belongs to a server with --http")):
    done = subprocess.run([host, *words], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and said in done.stderr, (words, done)

# A worker with other contracts is refused, and takes no task. So is each one when the server's program changes.
registry = work / "registry/ops"
registry.mkdir(parents=True)
(registry / "silu_twice.yaml").write_text(next(source.glob("registry/ops/**/silu_and_mul.yaml")).read_text().replace("silu_and_mul", "silu_twice"))
done = subprocess.run([host, "work"], env=dict(env, FK_REDIS=url, FK_REGISTRY_PATH=str(registry.parent)), capture_output=True, text=True, timeout=60)
assert done.returncode == 3 and re.search(r"would judge differently: its registry is \w+\S*, the server's is \w+", done.stderr), done
told = redis.cli("GET", "fk:program")
redis.cli("SET", "fk:program", re.sub(r'"build":"[^"]*"', '"build":"0123456789abcdef"', told))
for worker in workers:
    assert worker.process.wait(60) == 3 and "its build is" in worker.file.read_text(), logs()
workers.clear()
redis.cli("SET", "fk:program", told)
workers.append(Worker())
ended(server, submit(server), "correct")
print("ok    a worker that judges differently", flush=True)

# A worker without work ends, where it is asked to. At the end nothing is left, and each job has ended once.
idle = Worker("--idle", "1")
assert idle.process.wait(60) == 0
for worker in workers:
    assert worker.end() == 0, logs()
assert redis.cli("XLEN", "fk:tasks") == "0" and redis.cli("XLEN", "fk:ends") == "0", (redis.cli("XRANGE", "fk:tasks", "-", "+"), redis.cli("XLEN", "fk:ends"))
server.process.terminate()
assert server.process.wait(60) == 0
with sqlite3.connect(work / "queue/queue.sqlite") as db:
    states = dict(db.execute("SELECT state, count(*) FROM jobs GROUP BY state").fetchall())
    counted = db.execute("SELECT sum(ended) FROM statuses").fetchone()[0]
assert states == {"done": submitted - 1, "cancelled": 1} and counted == submitted - 1, (states, counted, submitted)
wait(lambda: not processes(), lambda: f"processes stay: {processes()}", 30)
redis.kill()
print("ok    nothing is left", flush=True)
