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
        assert time.monotonic() < end, what() if callable(what) else what
        time.sleep(0.02)


def letters_tokenizer(folder):
    """A tokenizer and a chat template in a new folder: bytes, and all pairs of 16 letters, so every id of the tiny model has a text.
    Returns the ids by token, the sign of each byte, and the id of the end."""
    letters = "abcdefghijklmnop"
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in visible]
    alphabet = {**{b: chr(b) for b in visible}, **{b: chr(256 + i) for i, b in enumerate(rest)}}
    vocab = {alphabet[b]: b for b in range(256)}
    pairs = [(a, b) for a in letters for b in letters]
    for a, b in pairs:
        vocab[a + b] = len(vocab)
    special = [{"id": len(vocab), "content": "<eot>", "special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}]
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}, "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
                  "byte_fallback": False, "ignore_merges": False, "vocab": vocab, "merges": [[a, b] for a, b in pairs]}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<eot>", "chat_template": "{% for t in tools or [] %}({{ t.function.name }}){% endfor %}"
                                               "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}"
                                               "[{{ m.role }}]{{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"}))
    return vocab, alphabet, special[0]["id"]
