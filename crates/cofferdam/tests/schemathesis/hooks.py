"""What schemathesis is told about the jobs that there are, and two checks of ours.

A request that follows the document goes to a job that runs or to one that is
complete; most would go nowhere otherwise. One that breaks it is left as it is,
but for the job.
"""

import io
import os
import tarfile
import zlib

import schemathesis
from schemathesis.core.parameters import ParameterLocation

RUNNING = os.environ["COFFERDAM_RUNNING"]
COMPLETE = os.environ["COFFERDAM_COMPLETE"]
# One whose desktop was filmed; that of the first one is being filmed.
FILMED = os.environ["COFFERDAM_FILMED"]
# A running job that may be stopped, and a token that may be removed.
SPARE = os.environ["COFFERDAM_SPARE"]
TOKEN = os.environ["COFFERDAM_TOKEN_ID"]

JOBS = ("/api/v1/jobs/{id}", "/jobs/{id}", "/status/{id}")
STEERING = {"cancelJob", "pauseJob", "resumeJob"}
NOWHERE = "019a0000-0000-7000-8000-000000000000"

# What any address may answer, whatever is asked of it.
GENERAL = {400, 401, 403, 405, 406, 408, 411, 413, 414, 415, 421, 429, 431, 503}


def name(case):
    return case.operation.definition.raw.get("operationId")


def follows(case, location):
    info = case.meta.components.get(location) if case.meta else None
    return info is None or info.mode.is_positive


# What has been done at least once; until then it is asked where it can be.
DONE = set()


def did_it(case, response):
    """Whether it did what it is for: for one that is, leading elsewhere."""
    leads = name(case) is not None and "303" in case.operation.definition.raw["responses"]
    return response.status_code < 300 or (leads and response.status_code == 303)


@schemathesis.hook
def after_call(context, case, response):
    if did_it(case, response):
        DONE.add(name(case))


def job(operation, drawn):
    """Which job is asked for, where one was drawn."""
    # By what was drawn, so that some go elsewhere.
    part = zlib.crc32(drawn.encode("utf-8", "replace")) % 4
    led = part < 2 or operation not in DONE
    if operation == "deleteJob":
        return NOWHERE if drawn in (RUNNING, FILMED, COMPLETE, SPARE) else drawn
    if operation in ("cancelJob", "resumeJob"):
        return SPARE if led or drawn in (RUNNING, FILMED) else drawn
    if led and operation == "readRecording":
        return FILMED
    if led:
        return RUNNING
    return COMPLETE if part == 2 else drawn


def archive():
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        entry = tarfile.TarInfo("a.txt")
        entry.size = 1
        tar.addfile(entry, io.BytesIO(b"x"))
    return packed.getvalue()


@schemathesis.hook
def before_call(context, case, kwargs):
    operation = name(case)
    ids = case.path_parameters or {}
    if case.meta and case.meta.phase.name == "stateful":
        # What became of something is asked of the same thing; but three jobs stay.
        ends = operation in STEERING or operation == "deleteJob"
        if ends and ids.get("id") in (RUNNING, FILMED, COMPLETE):
            ids["id"] = NOWHERE
    else:
        lead_somewhere(case, operation, ids)
    if operation in ("createJob", "schedule", "submit") and follows_all(case):
        # What nobody can guess is left to the examples.
        if isinstance(case.body, dict):
            for field in ("coder", "summariser", "upload", "sandbox", "require", "network"):
                case.body.pop(field, None)
            case.body["model"] = "demo"


def follows_all(case):
    return bool(case.meta and case.meta.generation.mode.is_positive)


def lead_somewhere(case, operation, ids):
    if follows(case, ParameterLocation.PATH) and "id" in ids:
        if case.path.startswith(JOBS):
            ids["id"] = job(operation, str(ids["id"]))
        elif operation == "deleteToken":
            ids["id"] = TOKEN
    if not follows_all(case):
        return
    led = operation not in DONE or zlib.crc32(repr((case.query, case.body)).encode()) % 2
    if not led:
        return
    # The job has left these files for this.
    if operation == "readFile":
        case.query["path"] = "here"
    if operation == "notebook" and case.query:
        # The only one.
        case.query.pop("kernel", None)
    if operation == "deleteFile":
        case.query["path"] = "gone"
    if operation == "moveFile":
        case.body.update({"from": "moving", "to": "moved"})
    if operation == "upload":
        case.body = archive()
    if operation == "exec" and "command" in case.body:
        case.body.pop("argv", None)
        case.body["timeout"] = "1s"


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
        if did_it(case, response):
            self.done.add(case.operation.label)

    def after_run(self, ctx):
        idle = self.asked - self.done
        if idle:
            raise AssertionError("never done: " + ", ".join(sorted(idle)))
