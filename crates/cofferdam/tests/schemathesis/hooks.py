"""What schemathesis is told about the jobs that there are, and two checks of ours.

A request that follows the document goes to a job that runs or to one that is
complete; most would go nowhere otherwise. One that breaks it is left as it is,
but for the job.
"""

import os
import zlib

import schemathesis
from schemathesis.core.parameters import ParameterLocation

RUNNING = os.environ["COFFERDAM_RUNNING_JOB"]
COMPLETE = os.environ["COFFERDAM_COMPLETE_JOB"]
FILE = os.environ["COFFERDAM_FILE"]

JOBS = ("/api/v1/jobs/{id}", "/jobs/{id}", "/status/{id}")
# These would end the job that the others need.
SPARED = {"deleteJob", "cancelJob", "pauseJob", "resumeJob"}

# What any address may answer, whatever is asked of it.
GENERAL = {400, 401, 403, 405, 406, 408, 411, 413, 414, 415, 421, 429, 431, 503}


def name(case):
    return case.operation.definition.raw.get("operationId")


def follows(case, location):
    info = case.meta.components.get(location) if case.meta else None
    return info is None or info.mode.is_positive


@schemathesis.hook
def map_case(context, case):
    known = case.path.startswith(JOBS) and name(case) not in SPARED
    if known and follows(case, ParameterLocation.PATH) and "id" in (case.path_parameters or {}):
        # By what was drawn: the same seed asks the same.
        drawn = zlib.crc32(str(case.path_parameters["id"]).encode()) % 4
        if drawn < 3:
            case.path_parameters["id"] = COMPLETE if drawn == 0 else RUNNING
    if not (case.meta and case.meta.generation.mode.is_positive):
        return case
    if name(case) == "readFile" and case.query and len(case.query["path"]) % 2:
        case.query["path"] = FILE
    if name(case) == "moveFile" and isinstance(case.body, dict) and len(case.body["to"]) % 2:
        case.body["from"] = FILE
        case.body["to"] = FILE
    if name(case) == "exec" and isinstance(case.body, dict) and "command" in case.body:
        case.body.pop("argv", None)
        case.body["timeout"] = "1s"
    if "CreateJob" in str(case.operation.definition.raw) and isinstance(case.body, dict):
        # What nobody can guess is left to the examples.
        for field in ("coder", "upload", "sandbox", "require", "network"):
            case.body.pop(field, None)
        case.body["model"] = "demo"
    return case


@schemathesis.check
def statuses_are_named(ctx, response, case):
    """What follows from the request alone is in the document, not behind `default`."""
    named = case.operation.definition.raw["responses"]
    status = response.status_code
    if status not in GENERAL and str(status) not in named:
        raise AssertionError(f"{status} is not among {sorted(named)}")


@schemathesis.check
class EveryOperationWorks:
    """A run in which an operation never did what it is for has shown little of it."""

    def __init__(self):
        self.asked = set()
        self.done = set()

    def after_response(self, ctx, response, case):
        self.asked.add(case.operation.label)
        if response.status_code < 300:
            self.done.add(case.operation.label)

    def after_run(self, ctx):
        idle = self.asked - self.done
        if idle:
            raise AssertionError("never done: " + ", ".join(sorted(idle)))
