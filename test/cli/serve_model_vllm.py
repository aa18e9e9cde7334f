#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serve_model_vllm.py FK_HOST SOURCE_DIR: the benchmark client of vLLM (`vllm bench serve`) measures `fk-host serve-model`. Every request of it must
be answered, with as many tokens as it asks for. Exit code 77: there is no package `vllm` whose client can be imported."""
import atexit, json, os, pathlib, shutil, subprocess, sys, tempfile

from model_server import Server, letters_tokenizer

# `vllm bench serve` itself imports kernels; its client does without.
CLIENT = """import argparse, sys
from vllm.benchmarks.serve import add_cli_args, main
parser = argparse.ArgumentParser()
add_cli_args(parser)
main(parser.parse_args())"""
try:
    probe = subprocess.run([sys.executable, "-c", "import vllm.benchmarks.serve"], capture_output=True, text=True, timeout=300)
except subprocess.TimeoutExpired:
    probe = None
if probe is None or probe.returncode:
    print("left out: there is no package `vllm` with its client; PYTHON names an interpreter with it")
    sys.exit(77)

host = sys.argv[1]
work = pathlib.Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, work, True)
env = dict(os.environ, FK_DATA=str(work / "data"), FK_CACHE=str(work / "cache"), FK_CANDIDATES=str(work / "candidates"))
(work / "candidates").mkdir()
letters_tokenizer(work / "tokenizer")
server = Server(host, env, "llama3.1", "--profile", "tiny", "--tokenizer", work / "tokenizer", "--max-context", 512)
for backend, endpoint, more in (("openai", "/v1/completions", ()), ("openai-chat", "/v1/chat/completions", ()), ("openai", "/v1/completions", ("--request-rate", "20"))):
    out = work / "result.json"
    done = subprocess.run([sys.executable, "-c", CLIENT, "--backend", backend, "--base-url", f"http://127.0.0.1:{server.port}", "--endpoint", endpoint,
                           "--model", "llama3.1", "--tokenizer", str(work / "tokenizer"), "--dataset-name", "random", "--random-input-len", "24", "--random-output-len", "16",
                           "--num-prompts", "20", "--ignore-eos", "--seed", "3", "--percentile-metrics", "ttft,tpot,itl,e2el", "--save-result",
                           "--result-dir", str(work), "--result-filename", out.name, *more], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and out.exists(), (backend, done.stdout[-1500:], done.stderr[-3000:])
    result = json.loads(out.read_text())
    print({key: result[key] for key in ("completed", "total_output_tokens", "request_throughput", "mean_ttft_ms", "p99_tpot_ms")}, backend, *more, flush=True)
    assert result["completed"] == 20 and result["total_output_tokens"] == 20 * 16 and result["mean_ttft_ms"] > 0, result
    out.unlink()
assert server.end() == 0
