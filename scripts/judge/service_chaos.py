#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills the server of `fk-host serve --http`, its workers and candidates at random, and counts what becomes of the jobs.

Clients submit right, wrong, broken and crashing candidates for --minutes, and ask again for a job which failed because of a kill.
Fails when a job is lost, a job has two ends, a wrong candidate has a right verdict, a right one gets no right verdict in the end, or a
process, a file or shared memory stays. Then --queued jobs wait in one queue: the server may use no more memory than their sources.
With --workers the server judges nothing itself: `fk-host work` takes its jobs from a redis-server on loopback. Workers and Redis are killed
too, and half of the time Redis forgets all. 77: redis-server is not installed, or the build has no hiredis.
A seed repeats the choices, not the times. Each step has a time limit, and the whole run too."""
import argparse, collections, contextlib, faulthandler, http.client, json, os, pathlib, random, re, shutil, signal, sqlite3
import subprocess, sys, tempfile, threading, time

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "scripts"))
sys.path.insert(0, str(root / "scripts/judge"))
from fk_client import Client, ServiceError
from service_processes import Place, Redis, Server, Workers, processes_with, wait

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--host", default=str(root / "build/fk-host"))
parser.add_argument("--minutes", type=float, default=60)
parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
parser.add_argument("--clients", type=int, default=4)
parser.add_argument("--kill-every", type=float, default=4, help="mean seconds between two kills")
parser.add_argument("--queued", type=int, default=10000, help="jobs of the second part; 0: without it")
parser.add_argument("--workers", type=int, default=0, help="workers on Redis; 0: the server judges itself")
parser.add_argument("--json", type=pathlib.Path, help="writes the counts")
options = parser.parse_args()
if options.workers and not shutil.which("redis-server"):
    print("skipped: redis-server is not installed (Debian: redis-server)")
    sys.exit(77)
if options.workers:
    tried = subprocess.run([options.host, "work", "--redis", "redis://127.0.0.1:port"], capture_output=True, text=True, timeout=60)
    if tried.returncode == 3 and "has no Redis" in tried.stderr:
        print("skipped: this build has no Redis (Debian: libhiredis-dev)")
        sys.exit(77)
chance = random.Random(options.seed)
print(f"seed {options.seed}", flush=True)
faulthandler.dump_traceback_later(options.minutes * 60 + 900 + options.queued * 0.05, exit=True)  # a hang is a failure

work = pathlib.Path(tempfile.mkdtemp(prefix="fk-chaos-"))
(work / "tmp").mkdir()
env = dict(os.environ, FK_DATA=str(work / "data"), FK_CACHE=str(work / "cache"), TMPDIR=str(work / "tmp"), FK_CHAOS=str(work))
place = Place(options.host, work, env)
shared_before = set(os.listdir("/dev/shm"))
template = (root / "plugin_api/template/ops/silu_and_mul.cpp").read_text()
KINDS = {
    "right": (template, {"correct"}),
    "wrong": (template.replace("* up[i]", "+ up[i]"), {"wrong"}),
    "broken": (template + "\nint x = ;\n", {"compile_error"}),
    "crash": (re.sub(r"(void forward\([^)]*\)[^{]*\{)", r"\1 __builtin_trap();", template, count=1), {"crash", "crashed"}),
}
assert KINDS["wrong"][0] != template and KINDS["crash"][0] != template, "the template has changed"
RIGHT = {"correct", "faster", "same", "slower", "cannot_tell"}


def note(text):
    print(time.strftime("%H:%M:%S"), text, flush=True)


def processes():
    return processes_with("FK_CHAOS", work)


class Clients:
    def __init__(self, server, until):
        self.server, self.until = server, until
        self.lock = threading.Lock()
        self.ended = {}                       # id: (kind, status)
        self.failures = collections.Counter() # reasons of ends without a verdict
        self.killed_verdicts = 0              # crashes that a kill made
        self.faults = []
        self.times = []
        self.threads = [threading.Thread(target=self.work, args=(i, random.Random(options.seed + 1 + i))) for i in range(options.clients)]
        for thread in self.threads:
            thread.start()

    def patiently(self, action):
        """Asks until a server answers."""
        end = time.monotonic() + 180
        while True:
            try:
                return action(Client(self.server.url, timeout=20))
            except ServiceError as error:
                if error.status not in (429, 503):
                    raise
            except (OSError, http.client.HTTPException, ValueError):
                pass
            assert time.monotonic() < end, "no server answers for 180 s"
            time.sleep(0.2)

    def work(self, number, dice):
        try:
            for turn in range(1 << 30):
                if time.monotonic() > self.until:
                    return
                kind = dice.choice(list(KINDS))
                self.judge(kind, f"{kind}_{number}_{turn}", dice)
        except BaseException as error:  # any kind of failure counts
            self.faults.append(f"client {number}: {error!r}")

    def judge(self, kind, name, dice):
        source, expected = KINDS[kind]
        # Another constant makes another program, so no stored verdict answers.
        source = source.replace('FK_PLUGIN("', f"static const int kNumber = {dice.randrange(1 << 30)};\n[[maybe_unused]] static const int* kUsed = &kNumber;\nFK_PLUGIN(\"", 1)
        source = re.sub(r'FK_PLUGIN\("[^"]*"', f'FK_PLUGIN("{name}"', source)
        body = {"name": name, "source": source, "language": "cpp", "size": "smoke", "seconds": dice.choice([0, 0, 0, 0.01])}
        begin = time.monotonic()
        for attempt in range(20):
            id = self.patiently(lambda c: c.ask("POST", "/v1/jobs", body))["id"]
            end = time.monotonic() + 300
            while True:
                job = self.patiently(lambda c: c.job(id))
                if job["state"] in ("done", "failed"):
                    break
                assert job["state"] in ("queued", "running"), job
                assert time.monotonic() < end, f"no end in 300 s: {job}"
                time.sleep(0.1)
            if job["state"] == "failed":
                with self.lock:
                    self.failures[re.sub(r"\d+", "N", job["why"])[:120]] += 1
                continue
            verdict = self.patiently(lambda c: c.result(id))
            assert verdict["status"] == job["status"], (verdict["status"], job)
            status = job["status"]
            right = status in expected or (kind == "right" and status in RIGHT)
            if status == "environment" or (not right and kind != "right" and status in RIGHT):
                raise AssertionError(f"{kind} is {status}: {verdict['why']}")
            if not right:  # a kill met its process: that is no property of the candidate
                with self.lock:
                    self.killed_verdicts += 1
                    self.failures[f"{kind} is {status}: " + re.sub(r"\d+", "N", verdict["why"])[:100]] += 1
                    self.ended[id] = (kind, status)
                return
            with self.lock:
                self.ended[id] = (kind, status)
                self.times.append(time.monotonic() - begin)
            return
        raise AssertionError(f"{kind} {name} failed 20 times")

    def join(self):
        for thread in self.threads:
            thread.join(600)
            assert not thread.is_alive(), "a client does not end"


def kill_one(server, redis, workers, counts):
    """Kills the server, Redis, or any process below it or of a worker."""
    if chance.random() < 0.25:
        counts["server"] += 1
        server.kill()
        return
    if redis and chance.random() < 0.1:
        forgets = chance.random() < 0.5
        counts["redis and its data" if forgets else "redis"] += 1
        redis.kill(forgets, chance.random() * 3)
        return
    below = [(pid, words) for pid, words in processes() if pid not in (server.process.pid, redis and redis.process.pid)]
    if not below:
        return
    pid, words = chance.choice(sorted(below))
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
        counts["worker elsewhere" if " work " in words else "judge" if " serve " in words else "job" if " bench " in words else "process of a job"] += 1
    if workers:
        workers.keep()


def left_over(folder):
    """Files of the queue which no server needs, temporary files, and shared memory."""
    kept = {"queue.sqlite", "queue.sqlite-wal", "queue.sqlite-shm", "queue.lock", "server.name", "headers"}
    out = [str(p) for p in folder.rglob("*") if p.is_file() and not kept & set(p.relative_to(folder).parts)]
    out += [str(p) for p in (work / "tmp").rglob("*")] + [str(p) for p in work.glob("worker*/workers/*")]
    return out + [f"/dev/shm/{name}" for name in set(os.listdir("/dev/shm")) - shared_before]


def first_part():
    folder = work / "queue"
    redis = Redis(place) if options.workers else None
    workers = Workers(place, redis.url, options.workers) if redis else None
    server = Server(place, folder, *(["--redis", redis.url] if redis else []))
    until = time.monotonic() + options.minutes * 60
    clients, kills = Clients(server, until), collections.Counter()
    said = time.monotonic()
    while time.monotonic() < until and not clients.faults:
        time.sleep(min(chance.expovariate(1 / options.kill_every), 30))
        kill_one(server, redis, workers, kills)
        if time.monotonic() - said > 60:
            said = time.monotonic()
            note(f"{len(clients.ended)} verdicts, {sum(clients.failures.values())} failures, kills {dict(kills)}")
    clients.join()
    # A last client, without kills: the server still works.
    server.kill()
    last = Client(server.url).wait(Client(server.url).ask("POST", "/v1/jobs", {
        "name": "last", "source": re.sub(r'FK_PLUGIN\("[^"]*"', 'FK_PLUGIN("last"', template), "language": "cpp", "size": "smoke", "seconds": 0})["id"], 120)
    assert last["status"] == "correct", last
    if redis:
        left = {stream: redis.ask("XLEN", stream) for stream in ("fk:tasks", "fk:ends")}
        assert set(left.values()) == {"0"}, f"entries stay in Redis: {left}"
        workers.end()
    assert server.end() == 0, "the server does not end in order"
    if redis:
        redis.end()
    wait(lambda: not processes(), lambda: f"processes stay: {processes()}", 30)
    with sqlite3.connect(folder / "queue.sqlite") as db:
        rows = db.execute("SELECT id, state, status FROM jobs").fetchall()
        counted = db.execute("SELECT coalesce(sum(ended), 0) FROM statuses").fetchone()[0]
    states = collections.Counter(state for _, state, _ in rows)
    known = {id: status for id, state, status in rows if state == "done"}
    ends = len(clients.ended) + sum(n for why, n in clients.failures.items() if " is " not in why.split(":")[0]) + 1
    result = {"seed": options.seed, "minutes": options.minutes, "verdicts": len(clients.ended), "kills": dict(kills), "server_starts": server.starts,
              "failures": dict(clients.failures), "verdicts_of_killed": clients.killed_verdicts, "ends_in_queue": counted, "ends_seen": ends,
              "workers": options.workers, "states": dict(states), "median_s": round(sorted(clients.times)[len(clients.times) // 2], 2) if clients.times else None,
              "left": left_over(folder), "faults": clients.faults}
    print(json.dumps(result, indent=1), flush=True)
    assert not clients.faults, clients.faults
    assert not states["queued"] and not states["running"], states
    assert all(known.get(id) == status for id, (_, status) in clients.ended.items()), "a verdict was lost or changed"
    assert counted == ends, f"{counted} ends in the queue, {ends} seen by clients"
    assert not result["left"], result["left"]
    return result


def memory(pid):
    """Private and shared memory of a process in bytes, without the page cache."""
    return int(re.search(r"^Rss(?:Anon):\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)[1]) * 1024


def second_part():
    redis = Redis(place) if options.workers else None
    workers = Workers(place, redis.url, options.workers) if redis else None
    server = Server(place, work / "many", "--client-jobs", str(options.queued + 10), *(["--redis", redis.url] if redis else ["--device", "cpu"]))
    held = server.process.pid
    before, sources, begin = memory(held), 0, time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    filler = "// " + "x" * 4000 + "\n"
    for i in range(options.queued):
        source = f"// {i}\n" + filler + KINDS["broken"][0]
        sources += len(source)
        connection.request("POST", "/v1/jobs", json.dumps({"name": f"job{i}", "source": source, "language": "cpp"}), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status in (200, 202), (answer.status, text[:300])
        assert time.monotonic() - begin < 60 + options.queued * 0.05, f"{i} jobs took {time.monotonic() - begin:.0f} s"
    state = Client(server.url).ask("GET", "/v1/state")
    grown = memory(held) - before
    result = {"queued": state["waiting_check"], "sources_mib": round(sources / 2**20, 1), "grown_mib": round(grown / 2**20, 1),
              "before_mib": round(before / 2**20, 1), "seconds": round(time.monotonic() - begin, 1)}
    if redis:
        result["redis_mib"] = round(int(re.search(r"used_memory:(\d+)", redis.ask("INFO", "memory"))[1]) / 2**20, 1)
    print(json.dumps(result), flush=True)
    if redis:
        workers.end()
    assert server.end() == 0
    if redis:
        redis.end()
    wait(lambda: not processes(), lambda: f"processes stay: {processes()}", 30)
    assert state["waiting_check"] > options.queued * 0.9, state
    assert grown <= sources, f"{grown} bytes for {sources} bytes of sources"
    return result


try:
    results = {"chaos": first_part()}
    if options.queued:
        results["queue"] = second_part()
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    print("ok")
finally:
    for pid, _ in processes():
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(work, True)
