#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serve_model_openai.py FK_HOST SOURCE_DIR: the package `openai` from PyPI as a client of `fk-host serve-model`. Fails when the package cannot read
an answer, a stream or an error, or when both ways of the same answer differ. Exit code 77: the package is not installed."""
import asyncio, atexit, math, os, pathlib, shutil, ssl, subprocess, sys, tempfile

try:
    import openai
except ImportError:
    print("left out: there is no package `openai`; PYTHON names an interpreter with it")
    sys.exit(77)
from model_server import Server, letters_tokenizer, wait

host = sys.argv[1]
work = pathlib.Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, work, True)
env = dict(os.environ, FK_DATA=str(work / "data"), FK_CACHE=str(work / "cache"), FK_CANDIDATES=str(work / "candidates"))
(work / "candidates").mkdir()
letters_tokenizer(work / "tokenizer")
(work / "tokens").write_text("me a-long-enough-token-of-a-client-0123456789\n")
(work / "tokens").chmod(0o600)
server = Server(host, env, "llama3.1", "--profile", "tiny", "--tokenizer", work / "tokenizer", "--max-context", 512, "--open", 8, "--tokens", work / "tokens")
url, key = f"http://127.0.0.1:{server.port}/v1", "a-long-enough-token-of-a-client-0123456789"
client = openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=60)


def fails(kind, action, *parts):
    try:
        action()
    except kind as error:
        assert all(part in str(error) for part in parts), (parts, error)
        return error
    raise AssertionError(f"no {kind.__name__}")


# Models, and a wrong key.
assert [model.id for model in client.models.list()] == ["llama3.1"]
assert client.models.retrieve("llama3.1").owned_by == "fk-host"
fails(openai.NotFoundError, lambda: client.models.retrieve("gpt-4"))
fails(openai.AuthenticationError, lambda: openai.OpenAI(base_url=url, api_key="wrong", max_retries=0).models.list(), "token")

# Completions: greedy, seeded, several; the same as a stream; tokens in place of a text.
plain = dict(model="llama3.1", prompt="abcd", max_tokens=24, temperature=0, extra_body={"ignore_eos": True})
said = client.completions.create(**plain)
assert said.object == "text_completion" and said.choices[0].finish_reason == "length" and len(said.choices[0].text) > 10, said
assert (said.usage.prompt_tokens, said.usage.completion_tokens, said.usage.total_tokens) == (2, 24, 26) and said.usage.prompt_tokens_details.cached_tokens == 0
long = dict(plain, prompt="abcdefghijklmnop" * 5)  # 40 tokens, two whole pages of the cache
assert [client.completions.create(**long).usage.prompt_tokens_details.cached_tokens for _ in range(2)] == [0, 32]
events = list(client.completions.create(**plain, stream=True, stream_options={"include_usage": True}))
assert "".join(event.choices[0].text for event in events if event.choices) == said.choices[0].text
assert events[-1].usage.completion_tokens == 24 and events[-2].choices[0].finish_reason == "length" and len({event.id for event in events}) == 1
warm = dict(plain, temperature=1.2, top_p=0.9, seed=5, n=3)
assert [c.text for c in client.completions.create(**warm).choices] == [c.text for c in client.completions.create(**warm).choices]
ids = client.completions.create(**dict(plain, prompt=[[97, 98], [99]], extra_body={"ignore_eos": True, "return_token_ids": True}))
assert [len(c.token_ids) for c in ids.choices] == [24, 24] and [c.prompt_token_ids for c in ids.choices] == [[97, 98], [99]]
plain_text = said.choices[0].text
part = plain_text[4:7]
cut = client.completions.create(**plain, stop=[part]).choices[0]
assert cut.finish_reason == "stop" and cut.text == said.choices[0].text[:said.choices[0].text.index(part)]
assert client.completions.create(**plain, echo=True).choices[0].text == "abcd" + said.choices[0].text
penalized = client.completions.create(**plain, frequency_penalty=2, presence_penalty=2)
assert penalized.choices[0].finish_reason == "length"

# Probabilities: each list has an entry for each token, and the greedy token is the likeliest.
rows = client.completions.create(**plain, logprobs=3).choices[0].logprobs
assert len(rows.tokens) == len(rows.token_logprobs) == len(rows.top_logprobs) == len(rows.text_offset) == 24
assert all(abs(max(top.values()) - own) < 1e-9 and own <= 0 for own, top in zip(rows.token_logprobs, rows.top_logprobs))

# Conversations, whole and as a stream, with and without tools in the template.
messages = [{"role": "system", "content": "ab"}, {"role": "user", "content": [{"type": "text", "text": "cd"}]}]
talk = dict(model="llama3.1", messages=messages, max_completion_tokens=24, temperature=0)
said = client.chat.completions.create(**talk, logprobs=True, top_logprobs=2)
choice = said.choices[0]
assert said.object == "chat.completion" and choice.message.role == "assistant" and choice.finish_reason in ("length", "stop"), said
assert said.usage.completion_tokens == len(choice.logprobs.content) and all(len(one.top_logprobs) == 2 for one in choice.logprobs.content)
assert all(one.top_logprobs[0].logprob >= one.top_logprobs[1].logprob and math.exp(one.logprob) <= 1 for one in choice.logprobs.content)
assert b"".join(bytes(one.bytes) for one in choice.logprobs.content).decode(errors="replace").startswith(choice.message.content.rstrip("\ufffd")[:8])
events = list(client.chat.completions.create(**talk, stream=True))
assert events[0].choices[0].delta.role == "assistant" and "".join(event.choices[0].delta.content or "" for event in events) == choice.message.content
assert events[-1].choices[0].finish_reason == choice.finish_reason and events[0].object == "chat.completion.chunk"
tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]
with_tools = client.chat.completions.create(**talk, tools=tools)
assert with_tools.usage.prompt_tokens > said.usage.prompt_tokens and with_tools.choices[0].message.tool_calls is None
stop = choice.message.content[8:11]
with client.chat.completions.stream(**talk, stop=[stop]) as stream:  # the package's helper puts the parts together
    assert stream.get_final_completion().choices[0].message.content == choice.message.content[:choice.message.content.index(stop)]

# Errors are the package's, and name the key.
for wrong, param in ((dict(temperature=-1), "temperature"), (dict(max_tokens=0), "max_tokens"), (dict(n=17), "n"), (dict(logit_bias={"5": 1}), "logit_bias"),
                     (dict(best_of=2), "best_of"), (dict(suffix="x"), "suffix"), (dict(max_tokens=600), "max_tokens"), (dict(extra_body={"nonsense": 1}), "nonsense")):
    error = fails(openai.BadRequestError, lambda: client.completions.create(**{**plain, **wrong}), param)
    assert error.param == param and error.type == "invalid_request_error" and error.status_code == 400, (error.param, error.body)
for wrong, param in ((dict(response_format={"type": "json_object"}), "response_format"), (dict(tool_choice="required", tools=tools), "tool_choice"),
                     (dict(messages=[]), "messages"), (dict(messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:x"}}]}]), "messages")):
    assert fails(openai.BadRequestError, lambda: client.chat.completions.create(**{**talk, **wrong}), param).param == param
fails(openai.NotFoundError, lambda: client.completions.create(**dict(plain, model="gpt-4")), "llama3.1")
fails(openai.NotFoundError, lambda: client.embeddings.create(model="llama3.1", input="ab"), "/v1/completions")
fails(openai.RateLimitError, lambda: client.completions.create(**dict(plain, n=9)), "at most 8")


# The asynchronous client: many streams at once, and one which is left in the middle.
async def together():
    async with openai.AsyncOpenAI(base_url=url, api_key=key, max_retries=0, timeout=60) as many:
        async def one(text):
            stream = await many.completions.create(**dict(plain, prompt=text), stream=True)
            return "".join([event.choices[0].text async for event in stream])
        prompts = [a + b for a, b in zip("abcdefgh", "hgfedcba")]
        streams = await asyncio.gather(*map(one, prompts))
        assert streams == [client.completions.create(**dict(plain, prompt=text)).choices[0].text for text in prompts]
        left = await many.completions.create(**dict(plain, max_tokens=500), stream=True)
        async for _ in left:
            break
        await left.close()


asyncio.run(together())
headers = {"Authorization": f"Bearer {key}"}
wait(lambda: "vllm:num_requests_running{" in server.ask("/metrics", headers=headers, text=True)[1] and
     [line for line in server.ask("/metrics", headers=headers, text=True)[1].split("\n") if line.startswith("vllm:num_requests_running{")][0].endswith(" 0"),
     "a request goes on without its client")
assert server.end() == 0

# The same through TLS, where the client checks the certificate.
if shutil.which("openssl"):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", work / "key.pem", "-out", work / "chain.pem"], check=True, capture_output=True)
    (work / "key.pem").chmod(0o600)
    server = Server(host, env, "llama3.1", "--profile", "tiny", "--tokenizer", work / "tokenizer", "--certificate", work / "chain.pem", "--key", work / "key.pem")
    url = f"https://127.0.0.1:{server.port}/v1"
    trusts = openai.DefaultHttpxClient(verify=ssl.create_default_context(cafile=str(work / "chain.pem")))
    client = openai.OpenAI(base_url=url, api_key="none", max_retries=0, http_client=trusts, timeout=60)
    whole = client.completions.create(**plain).choices[0].text
    assert "".join(event.choices[0].text for event in client.completions.create(**plain, stream=True)) == whole == plain_text
    fails(openai.APIConnectionError, lambda: openai.OpenAI(base_url=url, api_key="none", max_retries=0).models.list())
    assert server.end() == 0

# Embeddings, which the package asks for as base64.
encoder = Server(host, env, "bge_m3", "--profile", "tiny")
client = openai.OpenAI(base_url=f"http://127.0.0.1:{encoder.port}/v1", api_key="none", max_retries=0)
said = client.embeddings.create(model="bge_m3", input=[[5, 6, 7], [8, 9]])
floats = client.embeddings.create(model="bge_m3", input=[[5, 6, 7], [8, 9]], encoding_format="float")
for one, other in zip(said.data, floats.data):
    assert abs(sum(x * x for x in one.embedding) - 1) < 1e-5 and max(abs(x - y) for x, y in zip(one.embedding, other.embedding)) < 1e-6
fails(openai.BadRequestError, lambda: client.embeddings.create(model="bge_m3", input=[[5]], dimensions=4), "dimensions")
assert encoder.end() == 0
print("ok")
