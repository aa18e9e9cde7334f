#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""service_schema.py FK_HOST: schemathesis (PyPI; FK_SCHEMATHESIS names the program) asks `fk-host serve --http` what
/openapi.json describes. Fails when an answer contradicts the description. Exit code 77: it is not installed."""
import atexit, os, pathlib, shutil, subprocess, sys, tempfile

program = os.environ.get("FK_SCHEMATHESIS") or shutil.which("schemathesis")
if not program:
    print("schemathesis is not installed")
    sys.exit(77)
work = pathlib.Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, work, True)
words = [sys.argv[1], "serve", "--http", "127.0.0.1:0", "--client-jobs", "10", "--queue", str(work / "queue")]
server = subprocess.Popen(words, env=dict(os.environ, FK_DATA=str(work / "data")), stdout=subprocess.PIPE, text=True)
atexit.register(server.kill)
url = server.stdout.readline().split()[-1]
# Events end with their job, which other jobs may keep waiting. A cancelled job stays in the list, so it can be used after DELETE.
done = subprocess.run([program, "run", url + "/openapi.json", "--max-examples", "30", "--seed", "1", "--request-timeout", "20",
                       "--exclude-path", "/v1/jobs/{id}/events", "--exclude-checks", "use_after_free"], cwd=work, timeout=500)
assert server.poll() is None, "the server ended"
server.terminate()
assert server.wait(60) == 0
assert done.returncode == 0, "the answers contradict /openapi.json"
