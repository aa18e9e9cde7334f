# SPDX-License-Identifier: Apache-2.0
"""An evaluator for OpenEvolve: `openevolve-run PROGRAM scripts/loops/openevolve_evaluator.py --config CONFIG`.

The program is one source file of a candidate. FK_LOOP_LANGUAGE has its language (the default follows its name), FK_LOOP_OPS its
ops and FK_LOOP_SIZE the size of cases. With `cascade_evaluation: true` stage 1 compiles it and judges the small cases, stage 2
judges the values of all cases, and stage 3 also times them. So a wrong program costs no timing.

combined_score is 0 for a wrong program and for one that is not timed, and else the lower end of the interval of its speed, in times the
best baseline: a lucky measurement gains nothing. In stages 1 and 2 it is 1 for a right program, so that thresholds of cascades let
it pass."""
import os, pathlib, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from verdict import NoVerdict, feedback, is_right, judge, speed

try:
    from openevolve.evaluation_result import EvaluationResult
except ImportError:  # the same shape: OpenEvolve also takes a dictionary of metrics

    class EvaluationResult:
        def __init__(self, metrics, artifacts):
            self.metrics, self.artifacts = metrics, artifacts


def _result(program_path, timed, **options):
    size = os.environ.get("FK_LOOP_SIZE")
    options = ({"size": size} if size else {}) | options
    ops = os.environ.get("FK_LOOP_OPS", "").replace(",", " ").split()
    if ops:
        options["ops"] = ops
    try:  # a program has a new random name each time, and the name is part of an answer
        verdict = judge(program_path, os.environ.get("FK_LOOP_LANGUAGE"), name="program", **options)
    except NoVerdict as error:
        return EvaluationResult(metrics={"combined_score": 0.0, "right": 0.0}, artifacts={"failure": str(error)})
    right, ratio = is_right(verdict), speed(verdict)
    metrics = {"right": float(right), "combined_score": float(right and not timed)}
    if right and timed and ratio:
        metrics |= {"combined_score": ratio[1], "speed": ratio[0], "speed_low": ratio[1], "speed_high": ratio[2]}
    artifacts = {"status": verdict["status"], "feedback": feedback(verdict), "receipt": verdict.get("receipt", "")}
    if verdict.get("log"):
        artifacts["log"] = verdict["log"][-4000:]
    return EvaluationResult(metrics=metrics, artifacts=artifacts)


def evaluate_stage1(program_path):
    return _result(program_path, False, size="smoke", seconds=0)


def evaluate_stage2(program_path):
    return _result(program_path, False, seconds=0)


def evaluate_stage3(program_path):
    return _result(program_path, True, seconds=float(os.environ.get("FK_LOOP_SECONDS", "1")))


def evaluate(program_path):
    """All stages at once, for a configuration without a cascade."""
    for stage in (evaluate_stage1, evaluate_stage2):
        found = stage(program_path)
        if not found.metrics["right"]:
            return found
    return evaluate_stage3(program_path)
