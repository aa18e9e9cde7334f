#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""watch.py FK_HOST SOURCE_DIR: a saved source is built and run again, a dropped .so is run within a second, a source
that does not compile is told and waited out."""
import os, pathlib, queue, shutil, subprocess, sys, tempfile, threading, time

host, source = sys.argv[1], pathlib.Path(sys.argv[2])
work = pathlib.Path(tempfile.mkdtemp())
env = dict(os.environ, FK_CANDIDATES=str(work / "candidates"), FK_CACHE=str(work / "cache"))


def run(*words):
    subprocess.run([host, *words], env=env, check=True, stdout=subprocess.DEVNULL)


class Watch:
    """A running `fk-host watch`; its lines as they come."""

    def __init__(self, *words):
        self.lines = queue.Queue()
        self.process = subprocess.Popen([host, "watch", *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)

    def until(self, part, seconds=60):
        seen, end = "", time.monotonic() + seconds
        while part not in seen:
            try:
                seen += self.lines.get(timeout=max(0, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no `{part}` within {seconds} s:\n{seen}") from None
        return seen

    def end(self, code):
        assert self.process.wait(60) == code, self.process.returncode


run("new", "rms_norm", "--name", "mine")
run("build", "mine")
watch = Watch("--check", "--max-runs", "3")
watch.until("watching")
file = work / "candidates/mine/rms_norm.cpp"
text = file.read_text()
file.write_text(text.replace("float scale", "flaot scale"))
watch.until("mine does not compile")
file.write_text(text.replace("row[i] += other[i]", "row[i] += 2 * other[i]"))  # compiles, and is wrong
watch.until("FAIL")
file.write_text(text)
watch.until("PASS")
watch.until("watching")
# A plugin that was built elsewhere and dropped in, in a folder that is new.
(work / "candidates/other").mkdir()
shutil.copy(work / "candidates/mine/mine.so", work / "candidates/other/other.so.part")
start = time.monotonic()
os.rename(work / "candidates/other/other.so.part", work / "candidates/other/other.so")
watch.until("mine 0.1.0")
assert time.monotonic() - start < 5, "the check of a new .so took too long to begin"  # 0.2 s where nothing else runs
watch.end(0)
shutil.rmtree(work / "candidates/other")

watch = Watch(source / "scenarios/smoke.yaml", "--max-runs", "2")
watch.until("watching")
shutil.copy(work / "candidates/mine/mine.so", work / "so")
os.rename(work / "so", work / "candidates/mine/mine.so")
watch.until("mine")
watch.end(0)

# Only the named candidate is watched, and only it runs.
run("new", "silu_and_mul", "--name", "second")
watch = Watch("--check", "--candidate", "mine", "--max-runs", "1")
watch.until("watching")
(work / "candidates/second/silu_and_mul.cpp").touch()
file.write_text(text)  # a saved source is compiled, whether it has changed or not
seen = watch.until("PASS")
assert "second" not in seen and "silu_and_mul" not in seen, seen
watch.end(0)
run("build", "second")
watch = Watch(source / "scenarios/smoke.yaml", "--candidate", "mine", "--max-runs", "1")
watch.end(0)
seen = "".join(watch.lines.queue)
assert "mine" in seen and "second" not in seen, seen
done = subprocess.run([host, "watch", "--check", "--candidate", "mien"], env=env, capture_output=True, text=True)
assert done.returncode == 2 and "did you mean `mine`" in done.stderr, done.stderr
shutil.rmtree(work)
print("watch: all passed")
