#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""layouts.py FK_HOST GPU_PLUGIN: the files of packages, and the sentences of `fk-host package` for bad input. GPU_PLUGIN says
that it has device code, and has the op silu_and_mul alone. Needs no torch. A refused package writes nothing."""
import base64, hashlib, json, os, pathlib, re, subprocess, sys, tempfile, zipfile

host, gpu_plugin = map(os.path.abspath, sys.argv[1:])
work = pathlib.Path(tempfile.mkdtemp())
env = dict(os.environ, FK_CANDIDATES=str(work / "candidates"), FK_CACHE=str(work / "cache"))


def run(words, code, *parts):
    done = subprocess.run([host, "package", *map(str, words)], env=env, capture_output=True, text=True, cwd=work)
    text = done.stdout + done.stderr
    missing = [part for part in parts if part not in text]
    assert done.returncode == code and not missing, f"{words}: exit {done.returncode}, missing {missing} in\n{text}"
    return text


def files_of(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# Bad input. The folder `out` stays absent.
(work / "candidates/mine").mkdir(parents=True)
(work / "candidates/mine/rms_norm.c").write_text("int x;\n")
bad = [(["nothing", "--for", "torch"], "there is no plugin `nothing`"),
       (["mine", "--for", "torch"], "fk-host build mine"),
       (["reference", "--for", "torhc"], "there is no target `torhc` (did you mean `torch`?)"),
       (["reference", "--for", "torch", "--namespace", "a-b"], "`a-b` is no name in Python"),
       (["reference", "--for", "sglang"], "its kernels are for the CPU, and SGLang calls them on a GPU alone"),
       ([gpu_plugin, "--for", "hf"], "it links no CUDA runtime of version 12 or 13"),
       ([work / "absent.so", "--for", "torch"], "absent.so")]
for words, sentence in bad:
    run([*words, "--out", work / "out"], 2, sentence)
    assert not (work / "out").exists(), f"{words} wrote files"
(work / "full").mkdir()
(work / "full/file").write_text("")
run(["reference", "--for", "torch", "--out", work / "full"], 2, "it is there already")

# A wheel per target, with the two commands in its README and the plugin's own bytes.
for target, plugin, group in (("torch", "reference", None), ("vllm", "reference", "vllm.general_plugins"),
                              ("sglang", gpu_plugin, "sglang.srt.plugins")):
    out = work / target
    run([plugin, "--for", target, "--out", out], 0, "next: ")
    (name,) = [p for p in files_of(out) if p.endswith(".whl")]
    readme = (out / "README.md").read_text()
    assert f"{name}\n" in readme and "@" not in readme.replace("kernel@", ""), readme
    with zipfile.ZipFile(out / name) as wheel:
        assert wheel.testzip() is None
        names = wheel.namelist()
        points = [wheel.read(n).decode() for n in names if n.endswith("entry_points.txt")]
        about = json.loads(next(wheel.read(n) for n in names if n.endswith("about.json")))
        kernels = wheel.read(f"{about['name']}/{about['plugin']}")
    assert (group is None) == (points == []) and all(f"[{group}]" in p for p in points), points
    assert about["version"].endswith(hashlib.sha256(kernels).hexdigest()[:8])
    if plugin == gpu_plugin:
        assert about["device"] == "cuda" and about["ops"] == ["silu_and_mul"]
        assert kernels == pathlib.Path(gpu_plugin).read_bytes(), "the packaged kernels are not the judged ones"

# The Hub's layout: one build variant, a digest of every file, ops under the kernel's id.
said = run(["reference", "--for", "hf", "--out", work / "hf"], 0, "reference for hf")
taken, refused = (set(re.search(form, said)[1].split(", ")) for form in (r"ops \((.*)\)", r"refused: (.*?): "))
plugins = json.loads(subprocess.run([host, "list", "plugins", "--json", "-"], capture_output=True, text=True, check=True).stdout)["rows"]
(ops,) = (set(row["ops"]) for row in plugins if row["plugin"] == "reference")
assert taken | refused == ops and not taken & refused and f" {len(taken)} ops " in said, (ops - taken - refused, said)
(variant,) = (work / "hf/build").iterdir()
assert variant.name.startswith("torch-stable-abi210-cpu-") and variant.name.endswith("-linux"), variant
metadata = json.loads((variant / "metadata.json").read_text())
files = files_of(variant)
del files["metadata.json"]
assert metadata["digest"]["files"] == {n: base64.b64encode(hashlib.sha256(b).digest()).decode() for n, b in files.items()}
assert json.loads(files["about.json"])["namespace"] == metadata["id"] and metadata["id"].isidentifier()
assert metadata["name"] == "fk-reference" and metadata["backend"] == {"type": "cpu"}
print("packages: layouts and refusals are right")
