# SPDX-License-Identifier: Apache-2.0
"""Clients of `fk-host serve-model` for serve_chaos.py: right ones, which check their answers, and others, which go away, are slow, or send nonsense."""
import collections, contextlib, http.client, json, random, re, socket, threading, time

from model_server import wait


class Clients:
    """Each method is one turn of a client."""

    def __init__(self, server, prompts, lengths, reference, errors, patience):
        """`reference`: the right answers. `errors`: a disturbance may cost an answer. `patience`: seconds for a right request."""
        self.server, self.prompts, self.lengths, self.reference = server, prompts, lengths, reference
        self.errors, self.patience = errors, patience
        self.counts, self.faults, self.lock = collections.Counter(), [], threading.Lock()
        self.disturbed = self.answered = time.monotonic()  # the last disturbance, the last right answer

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def guard(self, job):
        try:
            job()
        except BaseException as error:  # any kind of failure counts
            self.faults.append(f"{job.__name__}: {error!r}")

    # Right requests.

    def body(self, i, **more):
        return {"prompt": self.prompts[i], "max_tokens": self.lengths[i], "temperature": 0, "ignore_eos": True, **more}

    def refused(self, status, text, headers, begun):
        """An error of a right request: a clear one, and with a reason."""
        said = json.loads(text)["error"]
        assert said["message"] and said["code"] == status, text
        if status == 429:
            assert headers.get("Retry-After"), headers
            self.count("429")
            time.sleep(0.05)
            return
        assert status in (500, 503), (status, text)
        assert self.errors, f"an error where none may be: {text}"
        wait(lambda: self.disturbed > begun - 5, f"an error without a disturbance: {text}", 10)
        self.count(f"error {status}: " + re.sub(r"\d+", "N", said["message"])[:60])

    def post(self, body, timeout=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=timeout or self.patience)
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        return connection, connection.getresponse()

    def ask(self, dice):
        i, begun = dice.randrange(len(self.prompts)), time.monotonic()
        connection, answer = self.post(self.body(i))
        text = answer.read()
        connection.close()
        if answer.status != 200:
            return self.refused(answer.status, text, answer.headers, begun)
        said = json.loads(text)
        assert said["choices"][0]["token_ids"] == self.reference[i], f"prompt {i}: {said['choices'][0]['token_ids']} in place of {self.reference[i]}"
        assert said["usage"]["completion_tokens"] == self.lengths[i] and said["usage"]["prompt_tokens"] == len(self.prompts[i])
        self.answered = time.monotonic()
        self.count("answers")

    def check_stream(self, text, i, begun):
        lines = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
        ids = sum((event["choices"][0]["token_ids"] for event in map(json.loads, lines[:-1]) if event.get("choices")), [])
        if lines and lines[-1] == "[DONE]":
            assert ids == self.reference[i], f"stream {i}: {ids} in place of {self.reference[i]}"
            self.answered = time.monotonic()
            return self.count("streams")
        assert lines and "error" in json.loads(lines[-1]), f"a stream ends without a word: {text[-300:]}"
        assert ids == self.reference[i][:len(ids)], f"the begin of stream {i}: {ids} in place of {self.reference[i]}"
        self.refused(json.loads(lines[-1])["error"]["code"], lines[-1], {}, begun)

    def stream(self, dice):
        i, begun = dice.randrange(len(self.prompts)), time.monotonic()
        connection, answer = self.post(self.body(i, stream=True))
        text = answer.read().decode()
        connection.close()
        if answer.status != 200:
            return self.refused(answer.status, text, answer.headers, begun)
        self.check_stream(text, i, begun)

    def many(self, dice):
        """Many streams at once."""
        threads = [threading.Thread(target=self.guard, args=(lambda seed=dice.randrange(1 << 30): self.stream(random.Random(seed)),)) for _ in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        time.sleep(1)

    def read_slowly(self, dice):
        i, begun = dice.randrange(len(self.prompts)), time.monotonic()
        peer, text = self.begin(self.body(i, stream=True)), b""
        while chunk := peer.recv(64):
            text += chunk
            time.sleep(0.005)
        peer.close()
        head, _, rest = text.partition(b"\r\n\r\n")
        status = int(head.split()[1])
        parts = re.sub(rb"\r\n[0-9a-f]+\r\n|^[0-9a-f]+\r\n", b"", rest).decode()
        if status == 200:
            self.check_stream(parts, i, begun)
        else:
            self.refused(status, re.search(r"\{.*\}", parts)[0], {"Retry-After": b"Retry-After" in head}, begun)

    # Clients that go away, and bad ones.

    def begin(self, body, host=b"localhost"):
        peer = socket.create_connection(("127.0.0.1", self.server.port), timeout=self.patience)
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: " +
                     str(len(data)).encode() + b"\r\n\r\n" + data)
        return peer

    def leave(self, dice):
        peer = self.begin({"prompt": [dice.randrange(500)], "max_tokens": 1500, "temperature": 1, "seed": 3, "stream": True, "ignore_eos": True, "n": dice.choice([1, 2])})
        with contextlib.suppress(TimeoutError):
            peer.settimeout(dice.choice([0.001, 0.05, 0.3]))
            peer.recv(dice.choice([1, 200, 5000]))
        if dice.random() < 0.5:  # with a reset
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        peer.close()
        self.count("left")
        time.sleep(0.005)

    def write_slowly(self, dice):
        data = json.dumps(self.body(0)).encode()
        whole = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(data) + data
        peer = socket.create_connection(("127.0.0.1", self.server.port), timeout=30)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for at in range(0, min(len(whole), dice.randrange(1, 400)), 7):
                peer.sendall(whole[at:at + 7])
                time.sleep(0.002)
        peer.close()
        self.count("unfinished")

    def malformed(self, dice):
        whole = json.dumps(self.body(dice.randrange(len(self.prompts)), max_tokens=2)).encode()
        kind = dice.randrange(6)
        if kind == 0:
            body = bytes(dice.randrange(256) for _ in range(dice.randrange(200)))
        elif kind == 1:
            body = whole[:dice.randrange(len(whole))]
        elif kind == 2:
            body = b"[" * dice.choice([100, 10000]) + b"1"
        elif kind == 3:
            body = json.dumps({**self.body(0), dice.choice(["temperature", "n", "prompt", "stop", "seed", "logprobs", "nonsense"]):
                               dice.choice([-1, 1e300, "x", [[]], {"a": 1}, [-5], True])}).encode()
        elif kind == 4:
            body = whole.replace(b"0", bytes([dice.randrange(256)]), 1)
        else:
            return self.garbage(dice)
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=self.patience)
        begun = time.monotonic()
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status in (200, 429, 500, 503):  # the change was harmless
            assert kind > 2, (answer.status, body[:300])
            if answer.status >= 500:
                self.refused(answer.status, text, answer.headers, begun)
        else:
            assert 400 <= answer.status < 500 and json.loads(text)["error"]["message"], (answer.status, body[:300], text)
        self.count("malformed")
        time.sleep(0.005)

    def garbage(self, dice):
        """No HTTP at all."""
        peer = socket.create_connection(("127.0.0.1", self.server.port), timeout=30)
        with contextlib.suppress(OSError):  # the server may end the connection first
            peer.sendall(dice.choice([bytes(dice.randrange(256) for _ in range(300)), b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\n\r\n",
                                      b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00" * 30]))
            peer.shutdown(socket.SHUT_WR)
            first = peer.recv(4096)
            assert not first or b" 4" in first.split(b"\r\n")[0], first[:200]
        peer.close()
        self.count("garbage")

    def huge(self, dice):
        """A body beyond --body-mib is refused before it is read whole."""
        body = json.dumps({"prompt": [1] * 700_000}).encode()
        peer = socket.create_connection(("127.0.0.1", self.server.port), timeout=30)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            peer.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body))
            peer.sendall(body)
        with contextlib.suppress(ConnectionResetError):
            first = peer.recv(4096)
            assert not first or b" 413 " in first.split(b"\r\n")[0], first[:200]
        peer.close()
        self.count("huge")
        time.sleep(0.2)
