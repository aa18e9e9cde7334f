# SPDX-License-Identifier: Apache-2.0
"""A server of `fk-host serve-model` at a free port, and a client of it."""
import atexit, http.client, json, pathlib, signal, subprocess, time


class Server:
    def __init__(self, host, env, *words):
        words = [host, "serve-model", *map(str, words), "--http", "127.0.0.1:0"]
        self.process = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        atexit.register(self.process.kill)
        line = ""
        while " at http" not in line:
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read()
        self.port = int(line.rsplit(":", 1)[1])

    def ask(self, path, body=None, method=None, headers=(), text=False):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body)
        connection.request(method or ("POST" if data else "GET"), path, data, {"Content-Type": "application/json", **dict(headers)})
        answer = connection.getresponse()
        said = answer.read().decode()
        connection.close()
        return answer.status, said if text else json.loads(said)

    def complete(self, prompt, status=200, **more):
        got, said = self.ask("/v1/completions", {"prompt": prompt, "temperature": 0, "max_tokens": 8, "ignore_eos": True, **more})
        assert got == status, (got, said)
        return said

    def ids(self, prompt, **more):
        return self.complete(prompt, **more)["choices"][0]["token_ids"]

    def stream(self, prompt, **more):
        """The events of a stream, and whether it ended with [DONE]."""
        status, said = self.ask("/v1/completions", {"prompt": prompt, "temperature": 0, "max_tokens": 8, "ignore_eos": True, "stream": True, **more}, text=True)
        assert status == 200, said
        lines = [line[6:] for line in said.split("\n") if line.startswith("data: ")]
        return [json.loads(line) for line in lines if line != "[DONE]"], lines[-1] == "[DONE]"

    def metric(self, name):
        lines = [line for line in self.ask("/metrics", text=True)[1].split("\n") if line.startswith(name)]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def workers(self):
        return [int(pid) for pid in pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()] + \
               [int(pid) for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir() if task.name != str(self.process.pid)
                for pid in (task / "children").read_text().split()]

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def wait(done, what, seconds=60):
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, what
        time.sleep(0.02)
