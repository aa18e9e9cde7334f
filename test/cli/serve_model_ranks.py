#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serve_model_ranks.py FK_HOST SOURCE_DIR: `fk-host serve-model` with a model that --tp or --ep divides. Fails when an answer differs from the whole
model's, when shared pages are not counted or change an answer, when a client that goes away keeps its request, or when a dead rank is not replaced."""
import atexit, concurrent.futures, json, os, pathlib, random, shutil, signal, socket, sys, tempfile

from model_server import Server, wait

host = sys.argv[1]
work = pathlib.Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, work, True)
env = dict(os.environ, FK_DATA=str(work / "data"), FK_CACHE=str(work / "cache"), FK_CANDIDATES=str(work / "candidates"))
(work / "candidates").mkdir()
prompts = [random.Random(i).choices(range(200), k=5 + 9 * i) for i in range(10)]


def answers(server):
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        return list(pool.map(lambda prompt: server.ids(prompt, max_tokens=20), prompts))


for words in (["mixtral"], ["mixtral", "--ep", 2], ["mixtral", "--tp", 2], ["llama3.1"], ["llama3.1", "--tp", 2]):
    server = Server(host, env, words[0], "--profile", "tiny", "--device", "cpu", *words[1:])
    if len(words) == 1:
        expected = answers(server)
        assert server.end() == 0
        continue
    assert len(server.workers()) == 2, server.workers()
    assert answers(server) == expected, words
    # Again, now with shared pages: all whole pages before the last token.
    said = [server.complete(prompt, max_tokens=20) for prompt in prompts]
    assert [one["choices"][0]["token_ids"] for one in said] == expected, words
    cached = [one["usage"]["prompt_tokens_details"]["cached_tokens"] for one in said]
    assert cached == [(len(prompt) - 1) // 16 * 16 for prompt in prompts], cached
    figures = [server.metric(f"vllm:prefix_cache_{name}_total") for name in ("queries", "hits")]
    assert figures == [2 * sum(map(len, prompts)), sum(cached)], (words, figures, cached)
    # A client goes away.
    peer = socket.create_connection(("127.0.0.1", server.port))
    body = json.dumps({"prompt": [1], "max_tokens": 200, "temperature": 0, "stream": True, "ignore_eos": True, "n": 16}).encode()
    peer.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert peer.recv(1 << 16)
    peer.close()
    wait(lambda: server.metric("vllm:num_requests_running") + server.metric("vllm:num_requests_waiting") == 0, "a request goes on without its client")
    assert server.metric('vllm:request_success_total{model_name="%s",finished_reason="abort"}' % words[0]) > 0
    # One rank dies, and both are started again.
    os.kill(server.workers()[1], signal.SIGKILL)
    assert answers(server) == expected and server.metric("fk_model_restarts_total") == 1 and server.ask("/health")[0] == 200
    assert server.end() == 0
print("ok")
