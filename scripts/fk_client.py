#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A client of `fk-host serve --http` (docs/service.md), as a module and as a program. It is one file and needs Python 3.8 alone.

    client = Client("http://127.0.0.1:8080", token=None)
    job = client.submit("rms_norm.cpp", size="smoke")     # a source, or a .so
    verdict = client.result(client.wait(job["id"])["id"])
"""
import argparse, base64, json, os, pathlib, ssl, sys, time, urllib.error, urllib.request

EXTENSIONS = {".c": "c", ".cpp": "cpp", ".cu": "cuda", ".rs": "rust"}  # a Python source needs its language by name
OVER = ("done", "failed", "cancelled")


class ServiceError(Exception):
    """An answer with an error: its HTTP status, and the reason in words."""

    def __init__(self, status, error, headers):
        self.status, self.error, self.headers = status, error, headers
        hint = error.get("hint")
        super().__init__(f"{status}: {error.get('where')}: {error.get('what')}" + (f" ({hint})" if hint else ""))


class Client:
    """`certificate`: a file with the server's certificate or its issuer's. `timeout`: seconds of one request."""

    def __init__(self, url, token=None, certificate=None, timeout=60):
        self.url, self.token, self.timeout = url.rstrip("/"), token, timeout
        self.context = ssl.create_default_context(cafile=certificate) if url.startswith("https:") else None

    def open(self, method, path, body=None, timeout=None):
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = "Bearer " + self.token
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            return urllib.request.urlopen(request, timeout=timeout or self.timeout, context=self.context)
        except urllib.error.HTTPError as answer:
            text = answer.read()
            try:
                error = json.loads(text)["error"]
            except (ValueError, KeyError, TypeError):
                error = {"where": self.url, "what": text[:200].decode(errors="replace")}
            raise ServiceError(answer.code, error, answer.headers) from None

    def ask(self, method, path, body=None):
        with self.open(method, path, body) as answer:
            return json.load(answer)

    def text(self, path):
        with self.open("GET", path) as answer:
            return answer.read().decode()

    def submit(self, file, language=None, patience=0, **options):
        """Submits a file. `options` are keys of a job, such as ops, size and seconds. `patience`: so many seconds it waits for
        a place in the queue."""
        file = pathlib.Path(file)
        job = {"name": file.stem, **options}
        if file.suffix == ".so":
            job["plugin"] = base64.b64encode(file.read_bytes()).decode()
        else:
            job.update(source=file.read_text(), language=language or EXTENSIONS.get(file.suffix, ""))
        end = time.monotonic() + patience
        while True:
            try:
                return self.ask("POST", "/v1/jobs", job)
            except ServiceError as error:
                if error.status != 429 or time.monotonic() > end:
                    raise
                time.sleep(float(error.headers.get("Retry-After", 1)))

    def job(self, id):
        return self.ask("GET", f"/v1/jobs/{id}")

    def jobs(self, limit=100, skip=0):
        return self.ask("GET", f"/v1/jobs?limit={limit}&skip={skip}")["jobs"]

    def result(self, id):
        return self.ask("GET", f"/v1/jobs/{id}/result")

    def log(self, id):
        return self.text(f"/v1/jobs/{id}/log")

    def cancel(self, id):
        return self.ask("DELETE", f"/v1/jobs/{id}")

    def events(self, id):
        """The job's states as they change, until it ends. The server speaks every 15 seconds."""
        with self.open("GET", f"/v1/jobs/{id}/events") as answer:
            for line in answer:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])

    def wait(self, id, seconds=3600, told=None):
        """The job when it has ended; told(job) at each change. A server that is started again in between is asked again."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                for job in self.events(id):
                    if told:
                        told(job)
                    if job["state"] in OVER:
                        return job
            except OSError:
                pass
            time.sleep(0.5)
        raise TimeoutError(f"job {id} has not ended after {seconds} s")


def main():
    parser = argparse.ArgumentParser(description="Submits a candidate to `fk-host serve --http` and prints its verdict as JSON.")
    parser.add_argument("url")
    parser.add_argument("file", help="a source, or a .so")
    parser.add_argument("--language", help="for a source in Python: triton, tilelang or cutedsl")
    parser.add_argument("--op", dest="ops", action="append", default=[])
    parser.add_argument("--size", default="full")
    parser.add_argument("--seconds", type=float, help="seconds per case and provider; 0: correctness alone")
    parser.add_argument("--notes", help="a file with the author's words for the archive, as notes.json")
    parser.add_argument("--certificate", help="the server's certificate")
    a = parser.parse_args()
    client = Client(a.url, os.environ.get("FK_TOKEN"), a.certificate)
    options = {"ops": a.ops, "size": a.size, "seconds": a.seconds, "notes": a.notes and json.loads(pathlib.Path(a.notes).read_text())}
    options = {key: value for key, value in options.items() if value is not None}
    id = client.submit(a.file, a.language, **options)["id"]
    print(f"job {id}", file=sys.stderr)
    job = client.wait(id, told=lambda job: print(job["state"], job["place"] or "", job["step"], file=sys.stderr))
    if job["state"] != "done":
        sys.exit(f"{job['state']}: {job['why']}")
    json.dump(client.result(id), sys.stdout, indent=1)
    print()


def program():
    try:
        main()
    except (ServiceError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    program()
