#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""follow.py BUILD PAGE [--tree]: follows a page as a reader would, and fails where the page is wrong.

In a page's order, in a temporary folder which stands for a clone:
  ```cpp path/name.cpp   a block with a path is written to this file.
  ```sh                  Commands. The exit code is 0, or the one of a remark `# exit code 1`.
  ```text                An excerpt of what the block of commands before it has printed.
Other blocks are for readers alone. An excerpt's lines occur in the output in the same order. `...` stands for any text.
Times, speeds and numbers like 1.2e-07 differ between machines and are not compared, nor are widths of columns.

The folder has `build` and `scripts/fk-host`, the built program. With --tree it also has the sources which a build of plugins
needs, with no op but those of the page; `build` is then a folder of its own."""
import argparse, os, pathlib, re, shutil, subprocess, sys, tempfile

source = pathlib.Path(__file__).resolve().parents[2]
varies = [
    (r"\d[\d.]* (ns|us|ms|s|min)\b", "TIME"),
    (r"\d\.\d+e[-+]\d+", "NUMBER"),
    (r"\b(slower|same|faster|cannot_tell)\b", "SPEED"),
    (r"on cpu \(.*\)", "on cpu (NAME)"),
    (r"\s+", " "),
]


def blocks(page):
    """Line, language, path and text of each fenced block."""
    text = page.read_text()
    for found in re.finditer(r"^```(\w*)(?: +(\S+))?\n(.*?)^```$", text, re.M | re.S):
        yield text.count("\n", 0, found.start()) + 1, *found.groups()


def plain(line):
    for pattern, name in varies:
        line = re.sub(pattern, name, line)
    return line.strip()


def missing(excerpt, output):
    """The first line of an excerpt which the output has not, or None."""
    printed = iter([plain(line) for line in output.split("\n")])
    for line in excerpt.split("\n"):
        wanted = re.compile(".*".join(re.escape(part) for part in re.split(r" ?\.\.\. ?", plain(line))))
        if line.strip() and not any(wanted.fullmatch(p) for p in printed):
            return line
    return None


def lay_out(work, build, tree):
    (work / "bin").mkdir()
    (work / "bin/fk-host").symlink_to(build / "fk-host")
    (work / "candidates").mkdir()
    if not tree:
        (work / "scripts").mkdir()
        (work / "scripts/fk-host").symlink_to(build / "fk-host")
        (work / "build").symlink_to(build)
        (work / "scenarios").symlink_to(source / "scenarios")
        return
    # Ops are in folders of families, and so are the files for each.
    kept = [("baselines/reference", "*.*"), ("registry", "*.yaml"), ("test", "CMakeLists.txt")]
    kept += [("baselines/cpu", name) for name in ("*.hpp", "provider.cmake", "plugin.cpp", "team.cpp", "gemm_*.cpp")]
    for name in ("CMakeLists.txt", "LICENSE", "cmake", "core", "plugin_api", "scenarios", "baselines/models", "baselines/blocks"):
        copy = shutil.copytree if (source / name).is_dir() else shutil.copy
        copy(source / name, work / name)
    for folder, pattern in kept:
        for file in (source / folder).glob(pattern):
            (work / folder).mkdir(parents=True, exist_ok=True)
            shutil.copy(file, work / folder)
    for folder in ("registry/models", "registry/configs", "registry/devices"):
        shutil.copytree(source / folder, work / folder)
    for folder in ("attacks", "bench", "known"):
        (work / "test" / folder).mkdir()
        (work / "test" / folder / "CMakeLists.txt").touch()
    (work / "build").mkdir()
    for name in ("fk-host", "fk-header"):
        shutil.copy(build / name, work / "build" / name)


def follow(page, build, tree):
    work = pathlib.Path(tempfile.mkdtemp()).resolve()
    lay_out(work, build, tree)
    env = dict(os.environ, PATH=f"{work}/bin:{os.environ['PATH']}", FK_CACHE=str(work / "cache"), FK_DATA=str(work / "data"),
               FK_CANDIDATES=str(work / "candidates"), NO_COLOR="1",
               CUDA_VISIBLE_DEVICES="")  # pages show a machine without a GPU
    # A compiler's cache knows the sources again in another folder.
    env.update(CCACHE_BASEDIR=str(work), CCACHE_NOHASHDIR="1")
    for name in ("FK_HOME", "FK_PLUGIN_PATH", "FK_REGISTRY_PATH"):
        env.pop(name, None)
    output, counts, variables = None, {"files": 0, "commands": 0, "excerpts": 0}, work / ".variables"
    for line, language, path, text in blocks(page):
        place = f"{page.relative_to(source)}:{line}"
        if path:
            target = work / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
            counts["files"] += 1
        elif language == "sh":
            expected = int((re.findall(r"# exit code (\d+)", text) or ["0"])[-1])
            # An export lasts for the blocks behind it, as in a reader's shell.
            script = f"[ ! -e {variables} ] || . {variables}\nset -e\n{text}\nexport -p >{variables}\n"
            done = subprocess.run(["bash", "-c", script], cwd=work, env=env, text=True, timeout=600,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            output = done.stdout
            if done.returncode != expected:
                return f"{place}: exit code {done.returncode}, not {expected}\n{text}\nprinted\n\n{output}", work
            counts["commands"] += 1
        elif language == "text":
            if output is None:
                return f"{place}: an excerpt, and no command before it", work
            absent = missing(text, output)
            if absent is not None:
                return f"{place}: this line was not printed, or not behind the line before it:\n{absent}\nprinted\n\n{output}", work
            counts["excerpts"] += 1
    if not counts["commands"] or not counts["excerpts"]:
        return f"{page}: the page has no command, or no excerpt: {counts}", work
    print(page.relative_to(source), counts)
    return "", work


words = argparse.ArgumentParser()
words.add_argument("build", type=pathlib.Path)
words.add_argument("page", type=pathlib.Path)
words.add_argument("--tree", action="store_true")
asked = words.parse_args()
fault, folder = follow(asked.page.resolve(), asked.build.resolve(), asked.tree)
shutil.rmtree(folder)
sys.exit(fault or 0)
