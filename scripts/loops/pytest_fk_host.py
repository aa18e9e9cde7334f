# SPDX-License-Identifier: Apache-2.0
"""A plug-in of pytest: a verdict as the result of a test.

    PYTHONPATH=scripts/loops pytest -p pytest_fk_host candidates/ --fk-size smoke --fk-seconds 0

Each folder with a candidate.yaml, and each .so that is named, is a test: right passes, wrong fails with the reason, the evidence and the
next step. A test in Python asks with the fixture: `verdict = fk_verdict("mine.cpp", size="ci")`. `--fk-min-speed 1.1` also asks for
a speed: the lower end of its interval, in times the best baseline."""
import pathlib, sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from verdict import NoVerdict, feedback, is_right, judge, speed


def pytest_addoption(parser):
    group = parser.getgroup("fk-host")
    group.addoption("--fk-url", help="judge at this server, and not here")
    group.addoption("--fk-op", action="append", default=[], help="judge these ops only")
    group.addoption("--fk-size", default="full", help="full, ci, smoke or range")
    group.addoption("--fk-seconds", type=float, default=1, help="seconds per case and provider; 0: correctness alone")
    group.addoption("--fk-min-speed", type=float, default=0, help="the least speed, in times the best baseline")


class Wrong(Exception):
    """The candidate is wrong, or slower than --fk-min-speed."""


def _options(config):
    ops = config.getoption("--fk-op")
    return {"url": config.getoption("--fk-url"), "size": config.getoption("--fk-size"), "seconds": config.getoption("--fk-seconds")} | ({"ops": ops} if ops else {})


@pytest.fixture
def fk_verdict(request):
    """A function: the verdict on a file. The options of the command line count where the call names none."""
    return lambda file, **options: judge(file, **(_options(request.config) | options))


class Candidate(pytest.Item):
    def runtest(self):
        least = self.config.getoption("--fk-min-speed")
        verdict = judge(self.path.parent if self.path.name == "candidate.yaml" else self.path, **_options(self.config))
        self.add_report_section("call", "verdict", f"receipt {verdict.get('receipt', '')}")
        ratio = speed(verdict)
        self.user_properties += [("status", verdict["status"]), ("receipt", verdict.get("receipt", ""))] + ([("speed", ratio[0])] if ratio else [])
        if not is_right(verdict):
            raise Wrong(feedback(verdict))
        if least and not (ratio and ratio[1] >= least):
            raise Wrong(f"the speed is {ratio}, and its lower end must be at least {least}\n" + feedback(verdict))

    def repr_failure(self, excinfo, style=None):
        return str(excinfo.value) if excinfo.errisinstance((Wrong, NoVerdict)) else super().repr_failure(excinfo, style)

    def reportinfo(self):
        return self.path, None, f"verdict on {self.name}"


class CandidateFile(pytest.File):
    def collect(self):
        yield Candidate.from_parent(self, name=self.path.parent.name if self.path.name == "candidate.yaml" else self.path.stem)


def pytest_collect_file(file_path, parent):
    named = str(file_path) in {str(pathlib.Path(word).absolute()) for word in parent.config.args}
    if file_path.name == "candidate.yaml" or (file_path.suffix == ".so" and named):
        return CandidateFile.from_parent(parent, path=file_path)
