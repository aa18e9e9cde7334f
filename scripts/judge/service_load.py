#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients of `fk-host serve --http` who ask one after the other without a pause: verdicts, and how long each kind of candidate waits.

Half of the candidates are wrong, a quarter is right, and a quarter repeats another client's last one. Each is silu_and_mul as `fk-host new`
writes it, compiled once; another number in its bytes makes another candidate, so no stored verdict answers. With --sources the server
compiles each. A time begins before the request and ends when the client knows the verdict. Fails when a verdict is none which its kind may
have, when there are fewer than --least verdicts, or when the 95th percentile of the wrong ones is above --wrong-p95 seconds.

On a GPU: scripts/judge/service_load.py --device cuda:0 --least 400 --wrong-p95 1 --json FILE"""
import argparse, base64, collections, json, os, pathlib, platform, random, re, statistics, subprocess, sys, tempfile, threading, time

from seen_on import root, seen_on
from service_processes import Place, Server

sys.path.insert(0, str(root / "scripts"))
from fk_client import Client

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--host", default=str(root / "build/fk-host"))
parser.add_argument("--device", default="cpu", help="cpu (the default) or cuda:0")
parser.add_argument("--clients", type=int, default=16)
parser.add_argument("--minutes", type=float, default=10)
parser.add_argument("--size", default="smoke", help="of the cases: smoke (the default), ci or full")
parser.add_argument("--seconds", type=float, default=0.01, help="of a right candidate's timing per case and provider; 0: values alone")
parser.add_argument("--sources", action="store_true", help="submit sources in place of compiled candidates")
parser.add_argument("--least", type=int, default=0, help="verdicts")
parser.add_argument("--wrong-p95", type=float, default=0, help="seconds; 0: no limit")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--json", type=pathlib.Path)
options = parser.parse_args()
options.host = os.path.abspath(options.host)

MAY = {"right": {"correct", "faster", "same", "slower", "cannot_tell"}, "wrong": {"wrong"}}
NUMBER = "FK_NUMBER_0000000000"
gpu = options.device != "cpu"
folder = tempfile.TemporaryDirectory(prefix="fk-load-")
work = pathlib.Path(folder.name)
env = dict(os.environ, FK_DATA=str(work / "data"), FK_CACHE=str(work / "cache"), FK_CANDIDATES=str(work / "candidates"))


def candidate(kind):
    """The candidate's source as text and its plugin as bytes."""
    language = "cu" if gpu else "cpp"
    subprocess.run([options.host, "new", "silu_and_mul", "--name", kind, "--lang", language], env=env, check=True, capture_output=True)
    file = work / f"candidates/{kind}/silu_and_mul.{language}"
    text = file.read_text()
    if kind == "wrong":
        text, found = re.subn(r"\(1 \+ (__expf|std::exp|expf)\(", r"(1.05f + \1(", text, count=1)
        assert found, "the template has changed"
    text += f'\n[[gnu::used]] static const char kNumber[] = "{NUMBER}";\n'
    file.write_text(text)
    subprocess.run([options.host, "build", kind], env=env, check=True, capture_output=True)
    plugin = (work / f"candidates/{kind}/{kind}.so").read_bytes()
    assert plugin.count(NUMBER.encode()) == 1, "the number is not once in the plugin"
    return text, plugin


class Load:
    def __init__(self, url, made):
        self.url, self.made, self.until = url, made, time.monotonic() + options.minutes * 60
        self.lock = threading.Lock()
        self.last = {}  # of each client: its last candidate
        self.times, self.statuses, self.faults, self.count = collections.defaultdict(list), collections.Counter(), [], 0

    def next(self, number, dice):
        """A kind, and a job without its name."""
        asked = dice.choices(["wrong", "right", "repeated"], [2, 1, 1])[0]
        with self.lock:
            others = [job for client, job in self.last.items() if client != number]
            if asked == "repeated" and others:
                return ("repeated", *dice.choice(others))
            kind = "wrong" if asked == "wrong" else "right"
            self.count += 1
            text, plugin = self.made[kind]
            own = f"FK_NUMBER_{self.count:010}"
            body = {"name": f"{kind}_{self.count}", "size": options.size, "seconds": options.seconds}
            if options.sources:
                body.update(source=text.replace(NUMBER, own), language="cuda" if gpu else "cpp")
            else:
                body.update(plugin=base64.b64encode(plugin.replace(NUMBER.encode(), own.encode())).decode())
            self.last[number] = (kind, body)
        return kind, kind, body

    def work(self, number):
        try:
            client, dice = Client(self.url, f"client-{number:012}"), random.Random(options.seed * 1000 + number)
            while time.monotonic() < self.until:
                asked, kind, body = self.next(number, dice)
                begin = time.monotonic()
                job = client.wait(client.ask("POST", "/v1/jobs", body)["id"], 900)
                took = time.monotonic() - begin
                assert job["status"] in MAY[kind], (kind, job)
                with self.lock:
                    self.times[asked].append(took)
                    self.statuses[job["status"]] += 1
        except Exception as error:  # any kind of failure counts
            self.faults.append(f"client {number}: {error!r}")


def summary(times):
    times = sorted(times)
    at = lambda share: round(times[min(len(times) - 1, int(share * len(times)))], 3)
    return {"verdicts": len(times), "median_s": round(statistics.median(times), 3), "p95_s": at(0.95), "most_s": at(1)}


tokens = work / "tokens"
tokens.write_text("".join(f"client{i} client-{i:012}\n" for i in range(options.clients)))
tokens.chmod(0o600)
made = {kind: candidate(kind) for kind in MAY}
server = Server(Place(options.host, work, env), work / "queue", "--device", options.device, "--tokens", str(tokens))
try:
    first = Client(server.url, f"client-{0:012}")  # the oracle is ready before the first time is taken
    for kind, (text, plugin) in made.items():
        body = {"name": "first", "plugin": base64.b64encode(plugin).decode(), "size": options.size, "seconds": options.seconds}
        assert first.wait(first.ask("POST", "/v1/jobs", body)["id"], 900)["status"] in MAY[kind]
    load, begin = Load(server.url, made), time.monotonic()
    threads = [threading.Thread(target=load.work, args=(i,)) for i in range(options.clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(options.minutes * 60 + 1000)
        assert not thread.is_alive(), "a client does not end"
    seconds = time.monotonic() - begin
    assert server.end() == 0, "the server does not end in order"
finally:
    server.process.kill()
    server.process.wait()
    folder.cleanup()
out = {"what": "clients of the service", **seen_on(options.device, options.json), "machine": platform.machine(), "cores": os.cpu_count(),
       "load": os.getloadavg()[1], "clients": options.clients, "seconds": round(seconds, 1), "verdicts": sum(load.statuses.values()),
       "statuses": dict(load.statuses), "kinds": {kind: summary(times) for kind, times in sorted(load.times.items())}, "faults": load.faults}
print(json.dumps(out, indent=1))
if options.json:
    options.json.write_text(json.dumps(out, indent=1) + "\n")
assert not load.faults, load.faults
assert out["verdicts"] >= options.least, f"{out['verdicts']} verdicts"
assert not options.wrong_p95 or out["kinds"]["wrong"]["p95_s"] <= options.wrong_p95, out["kinds"]["wrong"]
