#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Disturbs `fk-host serve-model` for --minutes with a tiny model on the CPU, and checks each answer.

Clients send right requests, whole and as streams, alone and many at once. Others go away in the middle, read or write slowly, or send bodies which
are malformed or huge. There are three parts of equal length: processes of the model are killed or stopped; a candidate crashes or hangs; the same
candidate runs beside the baseline (--mirror). Fails when
* a right request gets other tokens than in peace, an error without a disturbance, or no end in --patience seconds;
* a malformed request gets a status other than 4xx, or ends the server;
* /health is not answered within 2 s, is 503 for 30 s, or is 200 while no request is answered;
* memory, descriptors, threads or shared memory grow, a recorded answer is wrong, or the server does not end in order.
A seed repeats the choices, not the times."""
import argparse, contextlib, faulthandler, http.client, json, os, pathlib, random, re, shutil, signal, subprocess, sys, tempfile, threading, time

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "test/cli"))
sys.path.insert(0, str(root / "scripts/judge"))
from model_server import Server, wait
from serve_chaos_clients import Clients

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--host", default=str(root / "build/fk-host"))
parser.add_argument("--minutes", type=float, default=6)
parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
parser.add_argument("--clients", type=int, default=6, help="of right requests")
parser.add_argument("--kill-every", type=float, default=4, help="mean seconds between two kills")
parser.add_argument("--patience", type=float, default=90, help="seconds for the answer to a right request")
parser.add_argument("--tp", type=int, default=1, help="ranks of the model")
parser.add_argument("--json", type=pathlib.Path, help="writes the counts")
options = parser.parse_args()
chance = random.Random(options.seed)
print(f"seed {options.seed}", flush=True)
faulthandler.dump_traceback_later(options.minutes * 60 + 600, exit=True)  # a hang is a failure

work = pathlib.Path(tempfile.mkdtemp(prefix="fk-serve-chaos-"))
env = dict(os.environ, FK_DATA=str(work / "data"), FK_CACHE=str(work / "cache"), FK_CANDIDATES=str(work / "candidates"))
(work / "candidates").mkdir()
(work / "small").mkdir()
(work / "small/config.json").write_text(json.dumps({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False}))
WORDS = [str(work / "small"), "--device", "cpu", "--max-batch", "8", "--max-context", "2048", "--pages", "400", "--open", "48", "--body-mib", "1",
         "--drain", "20", "--tp", str(options.tp)]
shared_before = set(os.listdir("/dev/shm"))
begin = [chance.randrange(500) for _ in range(120)]
PROMPTS = [begin[:chance.randrange(0, 120)] + [chance.randrange(500) for _ in range(chance.randrange(1, 80))] for _ in range(24)]
LENGTHS = [chance.choice([1, 4, 16, 60]) for _ in PROMPTS]
CRASHING = """
  // Each process ends itself after a number of calls, by a crash or by a hang.
  static long calls = 0, most = 0, kind = 0;
  if (most == 0) {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    most = 4000 + now.tv_nsec / 1000 % 30000;
    kind = now.tv_nsec / 7 % 3;
  }
  if (++calls > most) {
    if (kind == 0) for (;;) usleep(1000);
    if (kind == 1) __builtin_trap();
    _exit(3);
  }
"""


def note(text):
    print(time.strftime("%H:%M:%S"), text, flush=True)


def made(name, change):
    subprocess.run([options.host, "new", "silu_and_mul", "--name", name], env=env, check=True, capture_output=True, timeout=120)
    source = work / "candidates" / name / "silu_and_mul.cpp"
    text = source.read_text()
    source.write_text(change(text))
    assert name == "calm" or source.read_text() != text, "the template has changed"
    subprocess.run([options.host, "build", name], env=env, check=True, capture_output=True, timeout=120)


def memory(pid):
    """Private memory of a process in bytes."""
    return int(re.search(r"^RssAnon:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)[1]) * 1024


def processes():
    """Command lines of the processes of this run."""
    out = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(entry.name) != os.getpid() and f"FK_DATA={work}/".encode() in (entry / "environ").read_bytes():
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if words:  # no zombie
                    out.append(words)
    return out


def held(pid):
    """Descriptors and threads of a process."""
    return len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))


class Part(Clients):
    """A server with its clients, for some seconds."""

    def __init__(self, name, words, reference, seconds, kills, errors):
        self.name, self.kills, self.folder, self.complaints = name, kills, work / f"record-{name}", []
        server = Server(options.host, env, *WORDS, *words, "--record", self.folder)
        super().__init__(server, PROMPTS, LENGTHS, reference, errors, options.patience)
        threading.Thread(target=self.read_complaints, daemon=True).start()
        self.until = time.monotonic() + seconds

    def read_complaints(self):
        for line in self.server.process.stderr:
            self.disturbed = time.monotonic()
            self.complaints.append(line)

    def run(self):
        jobs = [self.ask] * (options.clients // 2) + [self.stream] * (options.clients - options.clients // 2)
        jobs += [self.many, self.leave, self.read_slowly, self.write_slowly, self.malformed, self.malformed, self.huge]
        threads = [threading.Thread(target=self.repeat, args=(job, random.Random(options.seed + i))) for i, job in enumerate(jobs)]
        threads += [threading.Thread(target=self.guard, args=(job,)) for job in (self.watch_health, self.watch_memory)]
        if self.kills:
            threads.append(threading.Thread(target=self.guard, args=(self.kill,)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(options.minutes * 60 + 300)
            assert not thread.is_alive(), "a client does not end"
        self.end()

    def repeat(self, job, dice):
        def turns():
            while time.monotonic() < self.until and not self.faults:
                job(dice)
        turns.__name__ = job.__name__
        self.guard(turns)

    # Watching and killing.

    def watch_health(self):
        bad = None
        while time.monotonic() < self.until and not self.faults:
            begun = time.monotonic()
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20)
            connection.request("GET", "/health")
            status = connection.getresponse().status
            connection.close()
            took = time.monotonic() - begun
            assert took < 2, f"/health took {took:.1f} s"
            assert status in (200, 503), status
            self.count(f"health {status}")
            bad = None if status == 200 else bad or begun
            assert not bad or begun - bad < 30, "the model does not run again in 30 s"
            assert begun - self.answered < 60, "/health is 200, and no request was answered for 60 s"
            time.sleep(0.1)

    def watch_memory(self):
        pid, before, seen, workers = self.server.process.pid, None, 0, 0
        begun = time.monotonic()
        while time.monotonic() < self.until and not self.faults:
            now = memory(pid)
            for worker in self.server.workers():
                with contextlib.suppress(OSError, TypeError):  # it has ended
                    workers = max(workers, memory(worker))
            if before is None and time.monotonic() - begun > 10:
                before = now
            seen = max(seen, now)
            time.sleep(0.2)
        self.memory = {"after_10_s_mib": round((before or seen) / 2**20, 1), "most_mib": round(seen / 2**20, 1), "worker_most_mib": round(workers / 2**20, 1)}
        assert not before or seen - before < 96 << 20, f"memory grows: {self.memory}"
        assert workers < 512 << 20, f"a worker has too much memory: {self.memory}"

    def kill(self):
        while time.monotonic() < self.until and not self.faults:
            time.sleep(min(chance.expovariate(1 / options.kill_every), 15))
            pids = self.server.workers()
            if not pids:
                continue
            self.disturbed = time.monotonic()
            with contextlib.suppress(ProcessLookupError):
                how = chance.choice([signal.SIGKILL] * 3 + [signal.SIGSTOP])
                os.kill(chance.choice(pids), how)
                self.count("kills" if how == signal.SIGKILL else "stops")

    def peace(self):
        """In peace, each request is answered right. A part's candidate may end once more meanwhile."""
        for i in range(len(PROMPTS)):
            end = time.monotonic() + options.patience
            while True:
                status, said = self.server.ask("/v1/completions", self.body(i))
                if status == 200:
                    break
                assert self.errors and time.monotonic() < end, (status, said)
                time.sleep(0.5)
            assert said["choices"][0]["token_ids"] == self.reference[i], (i, said)

    def end(self):
        if not self.faults:
            for name in ("running", "waiting"):
                wait(lambda: self.server.metric(f"vllm:num_requests_{name}") == 0, f"requests are {name} without clients", 60)
            self.peace()
            descriptors, threads = held(self.server.process.pid)
            assert descriptors < 100 and threads < 64, f"{descriptors} descriptors, {threads} threads"
        began = time.monotonic()
        code = self.server.end()
        result = {**{key: self.counts[key] for key in sorted(self.counts)}, "restarts": sum("runs again" in line for line in self.complaints),
                  "end_s": round(time.monotonic() - began, 1), **getattr(self, "memory", {})}
        note(f"{self.name}: {json.dumps(result)}")
        assert not self.faults, f"{self.name}: {self.faults[:5]}, the server said: {''.join(self.complaints[-12:])}"
        assert code == 0, f"the server ended with {code}: {''.join(self.complaints[-12:])}"
        wait(lambda: not processes(), lambda: f"processes stay: {processes()}", 30)
        self.check_record()
        results[self.name] = result

    def check_record(self):
        """Recorded answers are those of peace, also of clients which went away."""
        number = {tuple(prompt): i for i, prompt in enumerate(PROMPTS)}
        kept = 0
        for line in (self.folder / "requests.jsonl").read_text().split("\n")[:-1]:
            one = json.loads(line)
            i = number.get(tuple(one["prompt"]))
            if i is None or one.get("temperature"):
                continue
            kept += 1
            assert one["answer"] == self.reference[i][:len(one["answer"])] or one["max_tokens"] != LENGTHS[i], one
        assert kept >= self.counts["answers"] + self.counts["streams"], (kept, self.counts)


def reference_of(*words):
    server = Server(options.host, env, *WORDS, *words)
    answers = [server.ids(prompt, max_tokens=count) for prompt, count in zip(PROMPTS, LENGTHS)]
    assert server.end() == 0
    return answers


results = {"seed": options.seed, "minutes": options.minutes}
try:
    made("calm", lambda text: text)
    made("wild", lambda text: re.sub(r"(void forward\([^)]*\)[^{]*\{)", lambda found: found[1] + CRASHING, text, count=1).replace(
        "#include", "#include <time.h>\n#include <unistd.h>\n#include", 1))
    alone, beside = reference_of(), reference_of("--candidate", "calm")
    seconds = options.minutes * 60 / 3
    Part("kills", ["--patience", "3"], alone, seconds, kills=True, errors=True).run()
    Part("candidate", ["--candidate", "wild", "--patience", "3"], beside, seconds, kills=False, errors=True).run()
    Part("mirror", ["--candidate", "wild", "--patience", "3", "--mirror"], alone, seconds, kills=False, errors=False).run()
    left = set(os.listdir("/dev/shm")) - shared_before
    assert not left, f"shared memory stays: {left}"
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    print("ok")
finally:
    shutil.rmtree(work, True)
