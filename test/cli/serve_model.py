#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serve_model.py FK_HOST SOURCE_DIR: `fk-host serve-model` answers clients of the OpenAI API. Fails when an answer depends on other
requests, when a bad key passes, when a request of a client which has gone goes on, or when a dead worker loses a request without a word."""
import atexit, base64, concurrent.futures, http.client, json, os, pathlib, random, resource, shutil, signal, socket, struct, subprocess, sys, tempfile, threading, time

from model_server import Server, wait

host = sys.argv[1]
work = pathlib.Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, work, True)
env = dict(os.environ, FK_DATA=str(work / "data"), FK_CACHE=str(work / "cache"), FK_CANDIDATES=str(work / "candidates"))
(work / "candidates").mkdir()


def refused(words, part):
    done = subprocess.run([host, "serve-model", *map(str, words), "--http", "127.0.0.1:0"], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and part in done.stderr, (done.returncode, done.stderr)


refused(["mixtrl"], "mixtral")
refused(["whisper"], "cannot be served")
refused(["llama3.1", "--profile", "tiny", "--max-context", 8192], "512 positions")
refused(["llama3.1", "--candidate", "nonsense"], "nonsense")

# A folder with a configuration, whose context is long enough for answers of seconds.
(work / "small").mkdir()
(work / "small/config.json").write_text(json.dumps({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 512, "hidden_size": 128, "intermediate_size": 256,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False}))
server = Server(host, env, work / "small", "--max-batch", 32, "--max-context", 8192, "--pages", 4096, "--open", 40, "--name", "llama3.1")
seed = int(os.environ.get("FK_SEED", random.randrange(1 << 30)))
print("seed", seed)
chance = random.Random(seed)
prompts = [[chance.randrange(200) for _ in range(chance.choice([1, 3, 40, 150]))] for _ in range(16)]

# Lists, health, errors of paths.
status, models = server.ask("/v1/models")
assert [one["id"] for one in models["data"]] == ["llama3.1"] and models["data"][0]["max_model_len"] == 8192, models
assert server.ask("/health") == (200, {"status": "ok"})
assert server.ask("/v1/completion", {})[0] == 404 and server.ask("/v1/completions")[0] == 405
assert server.ask("/v1/embeddings", {"input": [1]})[0] == 404

# An answer does not depend on its company, nor on streaming; the events of a stream are its parts.
alone = [server.ids(prompt) for prompt in prompts]
assert all(len(ids) == 8 for ids in alone)
with concurrent.futures.ThreadPoolExecutor(16) as pool:
    assert list(pool.map(server.ids, prompts)) == alone
    streams = list(pool.map(server.stream, prompts))
for ids, (events, done) in zip(alone, streams):
    assert done and sum((event["choices"][0]["token_ids"] for event in events), []) == ids, (ids, events)
    assert [event["choices"][0]["finish_reason"] for event in events][-1] == "length"
both = server.complete(prompts[:2])
assert [choice["token_ids"] for choice in both["choices"]] == alone[:2]
assert both["usage"] == {"prompt_tokens": len(prompts[0]) + len(prompts[1]), "completion_tokens": 16,
                         "total_tokens": len(prompts[0]) + len(prompts[1]) + 16,
                         "prompt_tokens_details": {"cached_tokens": sum((len(prompt) - 1) // 16 * 16 for prompt in prompts[:2])}}, both["usage"]
events, _ = server.stream(prompts[0], stream_options={"include_usage": True})
assert events[-1]["usage"]["completion_tokens"] == 8 and events[-1]["choices"] == []
assert server.ids(prompts[0], echo=True) == prompts[0] + alone[0]

# Chance: a seed repeats an answer; the answers of `n` differ.
warm = dict(temperature=1, max_tokens=24, seed=7)
assert server.ids(prompts[0], **warm) == server.ids(prompts[0], **warm) != server.ids(prompts[0], **{**warm, "seed": 8})
three = [choice["token_ids"] for choice in server.complete(prompts[0], n=3, **warm)["choices"]]
assert len(three) == 3 and three[0] != three[1] != three[2] and three[0] == server.ids(prompts[0], **warm)
assert server.ids(prompts[0], temperature=2, top_k=1) == alone[0] == server.ids(prompts[0], temperature=1, top_p=1e-6)

# Penalties: a token does not come twice if each repetition costs more than all logits; prompts count for repetition_penalty alone.
plain = server.ids(prompts[0], max_tokens=40)
assert len(set(plain)) < 40, "the model does not repeat itself, so this test shows nothing"
assert len(set(server.ids(prompts[0], max_tokens=40, presence_penalty=2, frequency_penalty=2))) > len(set(plain))
again = server.ids([plain[0]] * 3, max_tokens=1)
assert server.ids(prompts[0], max_tokens=40, repetition_penalty=1, presence_penalty=0, min_p=0) == plain
few = server.ids(prompts[0], max_tokens=24, temperature=1, min_p=1, seed=7)  # only the most likely token is likely enough
assert few == server.ids(prompts[0], max_tokens=24) and server.ids(prompts[0], temperature=1, min_p=1e-9, seed=7) == server.ids(prompts[0], temperature=1, seed=7)
assert len(again) == 1 and len(set(server.ids([plain[0]] * 3, max_tokens=40, repetition_penalty=100))) > 20

# Equal beginnings share pages of the cache, and change no answer.
begin = [chance.randrange(200) for _ in range(120)]
ends = [begin + [chance.randrange(200) for _ in range(chance.randrange(1, 30))] for _ in range(6)]
before = [server.metric("vllm:prefix_cache_" + name) for name in ("queries", "hits")]
said = [server.complete(prompt) for prompt in ends]
shared = [one["choices"][0]["token_ids"] for one in said]
cached = [one["usage"]["prompt_tokens_details"]["cached_tokens"] for one in said]
assert cached == [0] + [112] * 5, cached  # 7 whole pages of the 120 equal tokens
after = [server.metric("vllm:prefix_cache_" + name) for name in ("queries", "hits")]
assert [b - a for a, b in zip(before, after)] == [sum(map(len, ends)), sum(cached)], (before, after, cached)
again = server.complete([ends[0], ends[0]], n=2)["usage"]["prompt_tokens_details"]["cached_tokens"]
assert again == 2 * ((len(ends[0]) - 1) // 16 * 16), again  # a prompt counts once for both of its answers
assert [server.ids(prompt) for prompt in reversed(ends)] == shared[::-1]

# Probabilities: the greedy token has the largest, and an answer with them is the same answer.
said = server.complete(prompts[1], logprobs=3)["choices"][0]
assert said["token_ids"] == alone[1]
for name, own, best in zip(said["logprobs"]["tokens"], said["logprobs"]["token_logprobs"], said["logprobs"]["top_logprobs"]):
    assert own < 0 and len(best) == 3 and max(best.values()) == own and max(best, key=best.get) == name, said["logprobs"]

# The model's end token, which is 2 by default, ends an answer; its reason is "stop" even at the last place.
end = server.complete(prompts[0], max_tokens=4000, temperature=1, seed=1, ignore_eos=False)["choices"][0]
assert end["finish_reason"] == "stop" and end["token_ids"].index(2) == len(end["token_ids"]) - 1, end
end = server.complete(prompts[0], max_tokens=len(end["token_ids"]), temperature=1, seed=1, ignore_eos=False)["choices"][0]
assert end["finish_reason"] == "stop"

# Ends: a stop token ends the answer there.
stop = alone[2][3]
said = server.complete(prompts[2], stop_token_ids=[stop])["choices"][0]
assert said["finish_reason"] == "stop" and said["token_ids"] == alone[2][:alone[2].index(stop) + 1], said

# Bad bodies: the error names the key.
for body, key in (({"prompt": [1], "min_p": 1.1}, "min_p"), ({"prompt": [1], "presence_penalty": 3}, "presence_penalty"), ({"prompt": [1], "temperatur": 1}, "temperature"), ({}, "prompt"),
                  ({"prompt": []}, "prompt"), ({"prompt": [[]]}, "prompt"), ({"prompt": [-1]}, "prompt"), ({"prompt": [1 << 40]}, "prompt"),
                  ({"prompt": [1.5]}, "prompt"), ({"prompt": "a text"}, "tokenizer"), ({"prompt": [1], "max_tokens": 0}, "max_tokens"),
                  ({"prompt": [1], "max_tokens": 8192}, "context"), ({"prompt": [1], "n": 17}, "`n`"), ({"prompt": [1], "top_p": 0}, "top_p"),
                  ({"prompt": [1], "temperature": -1}, "temperature"), ({"prompt": [1], "temperature": "1"}, "temperature"),
                  ({"prompt": [1], "stop": "x"}, "stop"), ({"prompt": [1], "logprobs": 21}, "logprobs"), ({"prompt": [1], "stream": 1}, "stream"),
                  ({"prompt": [1], "stream_options": {}}, "stream_options"), ({"prompt": [1], "logit_bias": {"5": 1}}, "logit_bias"),
                  ({"prompt": [1], "seed": 1 << 64}, "seed"), ([], "object"), (b"{", "body"), (b"\xff", "body")):
    status, said = server.ask("/v1/completions", body)
    assert status == 400 and key in said["error"]["message"], (body, status, said)
assert server.complete([1], status=404, model="gpt")["error"]["type"] == "not_found_error"
assert server.ids(prompts[3], min_p=0, logit_bias=None, model="llama3.1", user="me") == alone[3]
assert server.ask("/v1/completions", {"prompt": [1]}, headers={"Content-Type": "text/plain"})[0] == 415
assert server.ask("/v1/completions", {"prompt": [1]}, headers={"Host": "evil.example"})[0] == 401

# Fuzzed bodies: always an answer below 500.
whole = json.dumps({"prompt": [1, 2, 3], "max_tokens": 2, "stop_token_ids": [5], "stream_options": None, "n": 1, "seed": 3}).encode()
for _ in range(300):
    body = bytearray(whole)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(body))
        body[at:at + chance.randrange(3)] = bytes(chance.choice(b'{}[]",:0123456789-e.\\\x00\xff') for _ in range(chance.randrange(3)))
    status, said = server.ask("/v1/completions", bytes(body), text=True, method="POST")
    assert status in (200, 400, 404, 415), (status, bytes(body), said)


def open_stream(server, tokens=8000):
    """A client that has begun to read a long answer."""
    peer = socket.create_connection(("127.0.0.1", server.port))
    body = json.dumps({"prompt": [1], "max_tokens": tokens, "temperature": 0, "stream": True, "ignore_eos": True}).encode()
    peer.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert b"data: " in peer.recv(1 << 16) + peer.recv(1 << 16)
    return peer


# A client that goes away takes its request along; others go on.
peers = [open_stream(server) for _ in range(3)]
wait(lambda: server.metric("vllm:num_requests_running") == 3, "three run")
for peer in peers[:2]:
    peer.close()
wait(lambda: server.metric("vllm:num_requests_running") == 1, "a request goes on without its client")
assert server.metric('vllm:request_success_total{model_name="llama3.1",finished_reason="abort"}') == 2
assert server.ids(prompts[4]) == alone[4]
peers[2].close()
wait(lambda: server.metric("vllm:num_requests_running") == 0, "the last one goes on")
assert server.ids(prompts[5]) == alone[5]

# Too many answers: 429 with a time.
peers = [open_stream(server, 3000) for _ in range(25)]
assert server.complete([[1]] * 16, n=1, status=429)["error"]["type"] == "rate_limit_error"
for peer in peers:
    peer.close()
wait(lambda: server.metric("vllm:num_requests_running") == 0, "the streams go on")

# 1000 clients that are slow with their requests hold nobody up, and none is turned away.
resource.setrlimit(resource.RLIMIT_NOFILE, (2048, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
body = json.dumps({"prompt": prompts[8], "max_tokens": 8, "temperature": 0, "ignore_eos": True}).encode()
head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
slow = []
for _ in range(1000):
    slow.append(socket.create_connection(("127.0.0.1", server.port)))
    slow[-1].sendall(head[:40])
assert server.ids(prompts[8]) == alone[8]
for peer in slow:
    peer.setblocking(False)
    try:
        assert peer.recv(1), "a slow client was turned away"
    except BlockingIOError:
        pass
slow[-1].settimeout(60)
slow[-1].sendall(head[40:] + body)
said = slow[-1].recv(1 << 16)
assert b" 200 " in said and json.dumps(alone[8]).replace(" ", "").encode() in said, said
for peer in slow:
    peer.close()

# A killed worker: its request ends with an error, the next one gets the same answer as before.
peer = open_stream(server)
for pid in server.workers():
    os.kill(pid, signal.SIGKILL)
rest = b""
peer.settimeout(60)
while chunk := peer.recv(1 << 16):
    rest += chunk
assert b'"error"' in rest and b"[DONE]" not in rest and b"starts again" in rest, rest[-500:]
assert server.ids(prompts[6]) == alone[6]
assert server.metric("fk_model_restarts_total") == 1
for pid in server.workers():  # one that is idle is replaced without a request
    os.kill(pid, signal.SIGKILL)
wait(lambda: server.metric("fk_model_restarts_total") == 2 and server.ask("/health")[0] == 200, "an idle worker that died is not replaced")
assert server.ids(prompts[7]) == alone[7]

# A candidate in the model: the server says which ops it runs, and answers with it.
for words in (["new", "rms_norm", "--name", "mine"], ["build", "mine"]):
    subprocess.run([host, *words], env=env, check=True, capture_output=True, timeout=120)
beside = Server(host, env, work / "small", "--candidate", "mine", "--max-batch", 8, "--no-prefix-cache")
info = beside.ask("/info")[1]
assert info["candidates"] == ["mine"] and {op["op"] for op in info["ops"] if op["provider"] == "mine"} == {"rms_norm"}, info
assert len(beside.ids(prompts[0])) == 8
assert [beside.ids(prompt) for prompt in ends] == shared  # without shared pages
assert beside.ask("/mirror")[0] == 404
# A model that cannot be started again leaves no client without a word, and serves again as soon as it can.
library = next((work / "candidates").rglob("mine.so"))
library.rename(work / "away.so")
for pid in beside.workers():
    os.kill(pid, signal.SIGKILL)
assert "cannot be started again" in beside.complete(prompts[0], status=500)["error"]["message"]
assert beside.ask("/health")[0] == 503 and beside.metric("vllm:num_requests_waiting") == 0
(work / "away.so").rename(library)
wait(lambda: beside.ask("/health")[0] == 200, "the model stays away")
assert [beside.ids(prompt) for prompt in ends] == shared
assert beside.end() == 0

# An encoder: a vector of length 1 for each text, the same alone and in company, as numbers and in base64.
encoder = Server(host, env, "bge_m3", "--profile", "tiny")
said = encoder.ask("/v1/embeddings", {"input": [[5, 6, 7], [8, 9]]})[1]
both = [entry["embedding"] for entry in said["data"]]
assert said["usage"]["prompt_tokens"] == 5 and all(abs(sum(x * x for x in one) - 1) < 1e-5 for one in both) and both[0] != both[1]
packed = base64.b64decode(encoder.ask("/v1/embeddings", {"input": [8, 9], "encoding_format": "base64"})[1]["data"][0]["embedding"])
assert all(abs(x - y) < 1e-5 for x, y in zip(struct.unpack(f"<{len(both[1])}f", packed), both[1]))
assert encoder.ask("/v1/completions", {"prompt": [1]})[0] == 404 and encoder.ask("/v1/embeddings", {"input": [8], "dimensions": 3})[0] == 400
assert encoder.end() == 0

# SIGTERM: the open answer ends whole, a new one is refused, the server ends with 0.
results = []
thread = threading.Thread(target=lambda: results.append(server.stream([1], max_tokens=1500, ignore_eos=True)))
thread.start()
wait(lambda: server.metric("vllm:num_requests_running") == 1, "the stream begins")
kept = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
kept.request("GET", "/health")
kept.getresponse().read()
server.process.send_signal(signal.SIGTERM)
time.sleep(0.05)
kept.request("POST", "/v1/completions", json.dumps({"prompt": [1]}), {"Content-Type": "application/json"})
assert kept.getresponse().status == 503
thread.join()
events, done = results[0]
assert done and sum(len(event["choices"][0]["token_ids"]) for event in events) == 1500
assert server.process.wait(60) == 0
print("ok")
