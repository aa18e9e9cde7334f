#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serve_model_text.py FK_HOST SOURCE_DIR: texts, conversations and stop texts of `fk-host serve-model`, with a tokenizer of two letters for each token.
Fails when a text is not that of its tokens, when a stream has other parts than the whole answer, or when a stop text is passed on."""
import atexit, json, os, pathlib, shutil, sys, tempfile

import browser
from model_server import Server, letters_tokenizer

host = sys.argv[1]
work = pathlib.Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, work, True)
env = dict(os.environ, FK_DATA=str(work / "data"), FK_CACHE=str(work / "cache"), FK_CANDIDATES=str(work / "candidates"))
(work / "candidates").mkdir()

folder = work / "tokenizer"
vocab, alphabet, special = letters_tokenizer(folder)
server = Server(host, env, "llama3.1", "--profile", "tiny", "--tokenizer", folder, "--max-context", 512)


def text_of(ids):
    back = {i: token for token, i in vocab.items()}
    bytes_of = {c: b for b, c in alphabet.items()}
    return bytes(bytes_of[c] for i in ids if i in back for c in back[i]).decode(errors="replace")


# A text is its tokens; the answer's text is that of its tokens.
said = server.complete("abcd", return_token_ids=True, max_tokens=64)["choices"][0]
assert said["prompt_token_ids"] == [vocab["ab"], vocab["cd"]], said
assert said["text"] == text_of(said["token_ids"]) and len(said["token_ids"]) == 64, said
assert server.complete([vocab["ab"], vocab["cd"]], max_tokens=64)["choices"][0]["text"] == said["text"]
assert "token_ids" not in server.complete("abcd")["choices"][0]
assert server.complete("abcd", echo=True, max_tokens=64)["choices"][0]["text"] == "abcd" + said["text"]
assert server.complete("", status=400)["error"]["param"] == "prompt"

# An answer of letters alone: chance with a seed, until the text has enough of them. A stream has the same text in whole characters.
for seed in range(200):
    warm = dict(temperature=1.5, seed=seed, max_tokens=48)
    whole = server.complete("aé", return_token_ids=True, **warm)["choices"][0]
    if "\ufffd" not in whole["text"] and len(whole["text"]) > 10:
        break
events, done = server.stream("aé", **warm)
parts = [event["choices"][0]["text"] for event in events]
assert done and "".join(parts).replace("\ufffd", "") == whole["text"].replace("\ufffd", "") and len(parts) > 3, (parts, whole["text"])

# A stop text ends the answer before it, in streams too, wherever the parts begin. A text that only begins like it goes on.
full = whole["text"]
at = len(full) // 2
stop = full[at:at + 3]
for wanted in (stop, [stop, "no such text"]):
    ended = server.complete("aé", stop=wanted, **warm)["choices"][0]
    assert ended["finish_reason"] == "stop" and ended["text"] == full[:full.index(stop)], (ended, full, stop)
events, done = server.stream("aé", stop=stop, **warm)
assert "".join(event["choices"][0]["text"] for event in events) == full[:full.index(stop)] and events[-1]["choices"][0]["finish_reason"] == "stop"
assert server.complete("aé", stop=full[-1] + "never", **warm)["choices"][0]["text"] == full

# Conversations.
messages = [{"role": "system", "content": "ab"}, {"role": "user", "content": [{"type": "text", "text": "cd"}]}]
template = "[system]ab<eot>[user]cd<eot>[assistant]"


def chat(status=200, **more):
    got, said = server.ask("/v1/chat/completions", {"messages": messages, "temperature": 0, "max_completion_tokens": 16, **more})
    assert got == status, (got, said)
    return said


said = chat(return_token_ids=True, logprobs=True, top_logprobs=2)
choice = said["choices"][0]
assert said["object"] == "chat.completion" and choice["message"]["role"] == "assistant" and choice["finish_reason"] == "length", said
assert special in choice["prompt_token_ids"] and said["usage"]["completion_tokens"] == 16
plain = server.complete(choice["prompt_token_ids"], max_tokens=16, return_token_ids=True)["choices"][0]
assert plain["token_ids"] == choice["token_ids"] and plain["text"] == choice["message"]["content"]
assert len(choice["logprobs"]["content"]) == 16 and all(len(entry["top_logprobs"]) == 2 for entry in choice["logprobs"]["content"])
assert server.complete(template, max_tokens=16)["choices"][0]["text"] == plain["text"]
status, text = server.ask("/v1/chat/completions", {"messages": messages, "temperature": 0, "max_tokens": 16, "stream": True}, text=True)
events = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: {")]
assert events[0]["choices"][0]["delta"]["role"] == "assistant" and events[0]["object"] == "chat.completion.chunk"
assert "".join(event["choices"][0]["delta"].get("content", "") for event in events) == plain["text"]
assert [event["choices"][0]["finish_reason"] for event in events][-1] == "length" and text.rstrip().endswith("[DONE]")
for body, key in (({"messages": []}, "messages"), ({"messages": [{"role": "tool", "content": "x"}]}, "no tools"), ({"messages": [{"content": "x"}]}, "role"),
                  ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "texts only"), ({"top_logprobs": 2}, "top_logprobs"),
                  ({"response_format": {"type": "json_object"}}, "response_format"), ({"prompt": "x"}, "prompt"), ({"tool_choice": "auto"}, "tool_choice")):
    assert key in chat(400, **body)["error"]["message"], body

# The page, and its description of the model.
status, page = server.ask("/", text=True)
assert status == 200 and "<script>" in page and "http:" not in page and "https:" not in page
info = server.ask("/info")[1]
assert info["chat"] and info["candidates"] == [] and any(op["op"] == "paged_attention" or "decoder" in op["op"] for op in info["ops"]), info
program = browser.find()
if program:
    chromium, own = browser.Browser(program), f"http://127.0.0.1:{server.port}/"
    try:
        for width in (1280, 390):
            chromium.open(own, width)
            chromium.run("new Promise(done => { const look = () => info.model ? done() : setTimeout(look, 20); look(); })")
            assert chromium.run("document.documentElement.scrollWidth") == width
            assert chromium.run("get('model').textContent") == "llama3.1 on cpu" and chromium.run("get('ops').querySelectorAll('tbody tr').length") > 5
            chromium.run("get('temperature').value = 0; get('most').value = 16; ask('cd')")
            turns = chromium.run("[...document.querySelectorAll('.turn')].map(t => [t.className, t.textContent])")
            status, said = server.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "cd"}], "temperature": 0, "max_tokens": 16})
            assert turns == [["turn me", "cd"], ["turn model", said["choices"][0]["message"]["content"]]], (turns, said)
            assert "tokens a second" in chromium.run("get('speed').textContent")
            wrong = [one for one in chromium.complaints() if not one.startswith("a request: " + own) and "favicon" not in one and "404" not in one]
            assert not wrong, wrong
        if os.environ.get("FK_PICTURE"):
            chromium.picture(os.environ["FK_PICTURE"])
    finally:
        chromium.close()
else:
    print("left out: there is no Chromium to open the page with (apt-get install chromium)")
assert server.end() == 0
print("ok")
