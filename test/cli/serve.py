#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serve.py FK_HOST SOURCE_DIR GOOD_PLUGIN BAD_PLUGINS_DIR: `fk-host serve` answers what `bench` and `replay` ask, one after the
other, whatever candidates and clients do; without it, or when it ends, they answer themselves."""
import atexit, json, os, pathlib, shutil, signal, socket, struct, subprocess, sys, tempfile, threading, time

from schema import validate

host = sys.argv[1]
source, good, bad = map(pathlib.Path, sys.argv[2:5])
work = pathlib.Path(tempfile.mkdtemp())
schema = json.loads((source / "docs/schema/verdict.json").read_text())
quick = ["--size", "smoke", "--seconds", "0", "--no-store", "--json"]
home = work / "home"
for folder in ("registry", "scenarios"):
    shutil.copytree(source / folder, home / folder)
baseline = work / "more.so"
shutil.copy(bad / "bad_value.so", baseline)
env = dict(os.environ, FK_HOME=str(home), FK_CANDIDATES=str(work / "candidates"), FK_CACHE=str(work / "cache"),
           FK_DATA=str(work / "data"), FK_PLUGIN_PATH=str(baseline))
path = work / "data/serve-cpu.socket"


def run(*words, **more):
    return subprocess.run([str(w) for w in (host, *words)], env=dict(env, **more), capture_output=True, text=True, timeout=300)


def verdict_of(done):
    assert done.stdout.startswith("{"), (done.returncode, done.stderr)
    verdict = json.loads(done.stdout)
    assert validate(verdict, schema) is None, validate(verdict, schema)
    return verdict


def bench(plugin, *words, **more):
    return verdict_of(run("bench", plugin, *quick, *words, **more))


class Server:
    """A running server and the lines that it has printed: one for every verdict."""

    def __init__(self):
        self.process = subprocess.Popen([host, "serve"], env=env, stdout=subprocess.PIPE, text=True)
        self.lines = [self.process.stdout.readline()]
        assert str(path) in self.lines[0], self.lines
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.process.stdout), daemon=True)
        atexit.register(self.process.kill)
        self.reader.start()

    def runners(self):
        out = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True).stdout
        return set(map(int, out.split()))

    def judged(self, count):
        """Waits until so many verdicts were printed; the files' names."""
        wait(lambda: len(self.lines) > count, lambda: self.lines)
        assert len(self.lines) == count + 1, self.lines
        return [pathlib.Path(line.split("  ")[-1].strip()).name for line in self.lines[1:]]

    def end(self, number=signal.SIGTERM):
        left = self.runners()
        self.process.send_signal(number)
        code = self.process.wait(60)
        self.reader.join()
        wait(lambda: not any(alive(pid) for pid in left))
        return code


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def wait(done, what=lambda: "it does not happen"):
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end, what()
        time.sleep(0.02)


def connect():
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(path))
    return client


def send(client, message):
    text = message if isinstance(message, bytes) else json.dumps(message).encode()
    client.sendall(struct.pack("<I", len(text)) + text)
    return client


def receive(client):
    """The next message that is no progress; None when the server has closed."""
    while (message := receive_any(client)) and message.keys() <= {"step", "ended"}:
        pass
    return message


def receive_any(client):
    def take(count):
        data = b""
        while len(data) < count:
            try:
                part = client.recv(count - len(data))
            except ConnectionResetError:
                return None
            if not part:
                return None
            data += part
        return data
    head = take(4)
    return head and json.loads(take(struct.unpack("<I", head)[0]))


# What a client sends, and that it judges itself when it is turned away or left alone.
right = work / "right.so"
shutil.copy(good, right)
(work / "data").mkdir()
questions = {}
for name, plugin, answer, words in (("right", right, {"declined": "not mine"}, []), ("hang", bad / "bad_hang.so", None, ["--patience", "200"])):
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    client = subprocess.Popen([host, "bench", str(plugin), *quick, *words], env=env, stdout=subprocess.PIPE, text=True)
    peer = listener.accept()[0]
    questions[name] = receive(peer)
    if answer:
        send(peer, answer)
    else:
        client.kill()
    peer.close()
    said = client.communicate(timeout=300)[0]
    assert not answer or json.loads(said)["status"] == "correct", said
    listener.close()
    assert path.exists()  # as a server leaves it that was killed

assert bench(right)["status"] == "correct"  # nobody listens at that file
server = Server()
refused = run("serve")
assert refused.returncode == 2 and "another server has it" in refused.stderr, refused.stderr
assert run("serve", "--device", "nonsense").returncode == 2
assert oct(path.stat().st_mode & 0o777) == "0o600"

# Right, wrong, crashed, hung; and right again, with other seeds.
first = bench(right)
assert first["status"] == "correct" and first["seconds"] > 0, (first["status"], first["why"])
for name, wanted in {"value": "wrong", "segfault": "crashed", "hang": "hang", "export": "lint", "contract": "load"}.items():
    verdict = bench(bad / f"bad_{name}.so", "--patience", "2")
    assert verdict["status"] == wanted, (name, verdict["status"], verdict["why"])
again = bench(right)
assert again["status"] == "correct" and again["secret"] != first["secret"]
wrong = run("bench", right, *quick, "--case", "smoek0")
assert wrong.returncode == 2 and "did you mean" in wrong.stderr, wrong.stderr
assert server.judged(7) == ["right.so", *(f"bad_{n}.so" for n in ("value", "segfault", "hang", "export", "contract")), "right.so"]

# The seeds of an earlier verdict; receipts; what is in the store is not asked.
same = bench(right, "--secret", first["secret"])
assert same["secret"] == first["secret"], "the server drew seeds of its own"
assert same["cases"][0]["errors"] == first["cases"][0]["errors"], "the same seeds gave other contents"
server.judged(8)
bench(right, "--receipt", work / "receipt.json")
server.judged(9)
replayed = run("replay", work / "receipt.json")
assert "REPRODUCED" in replayed.stdout, replayed.stdout + replayed.stderr
count = len(server.judged(10))
asked = [verdict_of(run("bench", right, "--size", "smoke", "--seconds", "0", "--json")) for _ in range(2)]
count += 1 if asked[1]["stored"] else 2
assert bench(right, "--no-sandbox")["status"] == "correct"  # not by the server, whose sandbox is on
assert bench(right, FK_PLUGIN_PATH="")["status"] == "correct"  # nor what has other baselines
server.judged(count)

# Nobody's question is that long: who says so is not listened to, while others wait.
try:
    answer = receive(send(connect(), {**questions["right"], "padding": "x" * (2 << 20)}))
except (BrokenPipeError, ConnectionResetError):
    answer = None
assert answer is None

# Several at once, in order, beside clients that send nonsense, nothing or go away.
silent = connect()
nonsense = [send(connect(), message) for message in (b"no json", b"[]", {"question": 1, "secret": ""}, {})]
torn = connect()
torn.sendall(struct.pack("<I", 1000) + b"{")
gone = send(connect(), questions["hang"])
queue = []
for index in range(4):
    plugin = work / f"queued{index}.so"
    shutil.copy(good, plugin)
    message = json.loads(json.dumps(questions["right"]))
    message["question"]["candidate"]["path"] = str(plugin)
    queue.append(send(connect(), message))
time.sleep(0.5)
gone.close()  # while it is judged, with a patience of 200 seconds
for client in queue:
    assert receive(client)["verdict"]["status"] == "correct"
assert server.judged(count + 4)[count:] == [f"queued{index}.so" for index in range(4)]
assert receive(nonsense[0]) is None and "error" in receive(nonsense[2]) and "error" in receive(nonsense[3])
clients = [subprocess.Popen([host, "bench", str(right), *quick], env=env, stdout=subprocess.PIPE, text=True) for _ in range(6)]
assert all(json.loads(client.communicate()[0])["status"] == "correct" for client in clients)
server.judged(count + 10)
# Who says nothing, or half of something, is not waited for; and what lies at a path now is not what was asked about.
for client in (silent, torn):
    client.settimeout(60)
    assert receive(client) is None
message = json.loads(json.dumps(questions["right"]))
message["question"]["candidate"]["path"] = str(bad / "bad_value.so")
assert "declined" in receive(send(connect(), message))
server.judged(count + 10)
# What this program's options would not let through is refused there too.
for key, value, words in (("families", ["nope"], "no family of inputs `nope`"), ("seconds", -1, "less than nothing"), ("patience_s", 0, "not more than nothing")):
    message = json.loads(json.dumps(questions["right"]))
    message["question"]["policy"][key] = value
    answer = receive(send(connect(), message))
    assert words in answer["error"]["what"], answer
# Many who say nothing keep nobody waiting, and nobody who asks goes without descriptors.
before = time.monotonic()
assert receive(send(connect(), questions["right"]))["verdict"]["status"] == "correct"
alone = time.monotonic() - before
count += 1
before = time.monotonic()
crowd = [connect() for _ in range(300)]
asked = send(connect(), questions["right"])
crowd += [connect() for _ in range(300)]
assert receive(asked)["verdict"]["status"] == "correct"
assert len(list(pathlib.Path(f"/proc/{server.process.pid}/fd").iterdir())) < 150 and time.monotonic() - before < 4 + 2 * alone
count += 1
for client in crowd:
    client.close()
server.judged(count + 10)
# Between questions the process of the next candidate is there, beside the oracle's and the baseline's.
wait(lambda: sum(map(alive, server.runners())) == 3, server.runners)

# A baseline that was written again: all processes are new. A contract: its new case is there.
before = server.runners()
shutil.copy(bad / "bad_value.so", baseline)
assert bench(right)["status"] == "correct"
assert not before & server.runners(), "processes with the old baseline"
contract = next((home / "registry").rglob("silu_and_mul.yaml"))
text = contract.read_text()
contract.write_text(text.replace("  smoke:\n", "  smoke:\n    - {name: one_more, T: 7, size: 40}\n"))
assert bench(right, "--case", "one_more")["cases"][0]["status"] == "correct"
# One that cannot be read is the asker's business, with the file's name, and not the server's end.
contract.write_text("op: [")
said = run("bench", right, *quick)
assert "silu_and_mul" in said.stdout + said.stderr and '"correct"' not in said.stdout, (said.returncode, said.stdout, said.stderr)
contract.write_text(text)
assert bench(right)["status"] == "correct"

# Told to end while it judges: at once, with nothing left behind; who asked answers himself.
asking = subprocess.Popen([host, "bench", str(bad / "bad_hang.so"), *quick, "--patience", "2"], env=env, stdout=subprocess.PIPE, text=True)
held = send(connect(), questions["hang"])
time.sleep(0.5)
assert server.end() == 0 and not path.exists()
assert receive(held) is None and json.loads(asking.communicate()[0])["status"] == "hang"
assert bench(right)["status"] == "correct"
server = Server()
assert server.end(signal.SIGINT) == 0 and not path.exists()
server = Server()
assert server.end(signal.SIGKILL) != 0 and path.exists()
server = Server()
assert bench(right)["status"] == "correct" and server.judged(1) == ["right.so"]
assert server.end() == 0

shutil.rmtree(work)
print("the server answers in order, and whatever happens to it or its clients hurts nobody else")
