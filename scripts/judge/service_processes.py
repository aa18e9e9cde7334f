# SPDX-License-Identifier: Apache-2.0
"""The processes of the service in scripts and tests: a server, workers, and their Redis."""
import atexit, contextlib, os, pathlib, shutil, signal, socket, subprocess, time, typing


class Place(typing.NamedTuple):
    host: str  # the program
    work: pathlib.Path
    env: dict


def wait(done, what, seconds):
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise AssertionError(f"after {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.05)


def processes_with(name, value):
    """Processes with this variable in their environment, but this one: (number, command line)."""
    out = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(entry.name) != os.getpid() and f"{name}={value}".encode() in (entry / "environ").read_bytes():
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if words[0]:  # no zombie
                    out.append((int(entry.name), b" ".join(words).decode(errors="replace")))
    return out


class Server:
    """The server, started again at the same address after each kill."""

    def __init__(self, place, folder, *words):
        self.place, self.folder, self.words, self.process, self.port, self.starts = place, folder, words, None, 0, 0
        self.start()

    def start(self):
        self.starts += 1
        words = [self.place.host, "serve", "--http", f"127.0.0.1:{self.port}", "--queue", str(self.folder), *self.words]
        end = time.monotonic() + 120
        while True:
            self.process = subprocess.Popen(words, env=self.place.env, stdout=subprocess.PIPE, stderr=open(self.place.work / "server.log", "a"), text=True)
            line = self.process.stdout.readline()
            if " of http" in line:
                break
            self.process.wait(60)
            assert time.monotonic() < end, "the server does not start: " + (self.place.work / "server.log").read_text()[-2000:]
            time.sleep(0.2)
        self.url = line.split()[-1]
        self.port = int(self.url.rsplit(":", 1)[1])

    def kill(self):
        self.process.kill()
        self.process.wait(60)
        self.start()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(120)


class Redis:
    """A redis-server, started again at the same port after each kill."""

    def __init__(self, place):
        self.place = place
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        self.folder = self.place.work / "redis"
        self.start()

    def start(self):
        self.folder.mkdir(exist_ok=True)
        words = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        self.process = subprocess.Popen(words, env=self.place.env, stdout=subprocess.DEVNULL)
        atexit.register(self.process.kill)
        wait(lambda: self.ask("PING") == "PONG", "redis-server does not start", 60)

    def ask(self, *words):
        done = subprocess.run(["redis-cli", "-p", str(self.port), *words], env=self.place.env, capture_output=True, text=True, timeout=60)
        return done.stdout.strip()

    def kill(self, forgets, pause_s):
        self.process.kill()
        self.process.wait(60)
        if forgets:
            shutil.rmtree(self.folder)
        time.sleep(pause_s)
        self.start()

    def end(self):
        self.process.terminate()
        self.process.wait(60)


class Workers:
    """Workers, each with a data folder of its own, as on another machine."""

    def __init__(self, place, url, number):
        self.place, self.url, self.number, self.processes = place, url, number, {}
        self.keep()

    def keep(self):
        for i in range(self.number):
            if i not in self.processes or self.processes[i].poll() is not None:
                self.processes[i] = subprocess.Popen([self.place.host, "work", "--claim", "3"], env=dict(self.place.env, FK_REDIS=self.url, FK_DATA=str(self.place.work / f"worker{i}")),
                                                     stdout=subprocess.DEVNULL, stderr=open(self.place.work / f"worker{i}.log", "a"))

    def end(self):
        for process in self.processes.values():
            process.terminate()
        assert [p.wait(120) for p in self.processes.values()] == [0] * self.number, "a worker does not end in order"
