# SPDX-License-Identifier: Apache-2.0
"""make_recorded.py TEMPLATES: remakes recorded.tar.xz, which recorded_test.cpp reads: tokenizers, lines of text, hashes of their ids and of
the texts of the ids by the package `tokenizers`; chat templates and their texts by transformers. TEMPLATES is `models/templates` of the source
package llama-cpp-python 0.3.19. Packages: tokenizers 0.23.3, sentencepiece 0.2, transformers 5.24, babel 2.19."""
import hashlib, io, json, lzma, pathlib, sys, tarfile

from conversations import expected, requests, stop_clock
from lines import make_lines
from make_tokenizers import KINDS, make_lines as training_lines

LINES, CHUNK = 10000, 100
# Templates whose models have the licence Apache-2.0 or MIT.
TEMPLATES = ["Apertus-8B-Instruct", "GLM-4.7-Flash", "HuggingFaceTB-SmolLM3-3B", "Mistral-Small-3.2-24B-Instruct-2506", "Qwen-Qwen2.5-7B-Instruct", "Qwen-Qwen3-0.6B",
             "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "ibm-granite-granite-3.3-2B-Instruct", "microsoft-Phi-3.5-mini-instruct",
             "mistralai-Mistral-Nemo-Instruct-2407", "openai-gpt-oss-120b", "Qwen3-Coder"]
CHATML = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")


def chunks(rows):
    """One hash for each CHUNK rows of bytes; a row is preceded by its size."""
    hashes = []
    for begin in range(0, len(rows), CHUNK):
        hashed = hashlib.sha256()
        for row in rows[begin:begin + CHUNK]:
            hashed.update(len(row).to_bytes(4, "little") + row)
        hashes.append(hashed.hexdigest()[:8])
    return hashes


def main():
    from tokenizers import Tokenizer
    files = {}
    lines = make_lines(LINES)
    files["lines.json"] = json.dumps(lines, ensure_ascii=False)
    trained = training_lines(4000, seed=2)
    hashes = {}
    for make in KINDS:
        text = make(trained).to_str()
        tokenizer = Tokenizer.from_str(text)  # scores as a reader of the file has them
        ids = [tokenizer.encode(line).ids for line in lines]
        hashes[make.__name__] = {
            "ids": chunks([b"".join(i.to_bytes(4, "little") for i in row) for row in ids]),
            "texts": chunks([(tokenizer.decode(row, skip_special_tokens=False) + tokenizer.decode(row)).encode() for row in ids])}
        files[f"tokenizers/{make.__name__}.json"] = text
        print(make.__name__, sum(map(len, ids)), "ids", flush=True)
    files["hashes.json"] = json.dumps(hashes)
    stop_clock()
    asked = requests()
    files["requests.json"] = json.dumps(asked, ensure_ascii=False)
    templates = {name: (pathlib.Path(sys.argv[1]) / f"{name}.jinja").read_text() for name in TEMPLATES} | {"chatml": CHATML}
    for name, template in templates.items():
        files[f"templates/{name}.jinja"] = template
        files[f"templates/{name}.json"] = json.dumps([expected(template, r) for r in asked], ensure_ascii=False)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in sorted(files):
            data = files[name].encode()
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1764288000
            archive.addfile(info, io.BytesIO(data))
    text = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "pb": 0}]
    pathlib.Path(__file__).with_name("recorded.tar.xz").write_bytes(lzma.compress(packed.getvalue(), filters=text))


if __name__ == "__main__":
    main()
