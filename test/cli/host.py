# SPDX-License-Identifier: Apache-2.0
"""A built fk-host in a folder of its own, and the count of its commands that answered as expected."""
import os, pathlib, resource, shutil, subprocess, sys, tempfile


class Host:
    def __init__(self, program, unset=()):
        """`unset`: names of the environment that the commands must not see."""
        self.program = program
        self.work = pathlib.Path(tempfile.mkdtemp())
        self.env = dict(os.environ, FK_CANDIDATES=str(self.work / "candidates"), FK_CACHE=str(self.work / "cache"), FK_DATA=str(self.work / "data"))
        for name in unset:
            self.env.pop(name, None)
        (self.work / "candidates").mkdir()
        self.passed = self.failed = 0

    def run(self, words, code, *parts, absent=(), limit=None, program=None, **more):
        """Runs fk-host, with `more` in its environment and a (kind, bytes) limit. Its exit code and every part of its output must be as expected."""
        done = subprocess.run([program or self.program, *map(str, words)], env={**self.env, **{k: str(v) for k, v in more.items()}},
                              capture_output=True, text=True, timeout=300,
                              preexec_fn=limit and (lambda: resource.setrlimit(limit[0], (limit[1], limit[1]))))
        text = done.stdout + done.stderr
        wrong = [p for p in parts if p not in text] + [p for p in absent if p in text]
        if done.returncode == code and not wrong:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED: fk-host {' '.join(map(str, words))}\n  exit {done.returncode}, expected {code}; missing or present: {wrong}\n{text[:1500]}")
        return done.stdout

    def end(self):
        """Removes the folder, and ends the script: exit code 1 if a command failed, or none ran."""
        shutil.rmtree(self.work)
        print(f"{self.passed} passed, {self.failed} failed")
        sys.exit(self.failed != 0 or self.passed == 0)
