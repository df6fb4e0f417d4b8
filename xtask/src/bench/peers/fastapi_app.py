"""A minimal orchestrator: jobs are entries of a dictionary, and nothing runs them."""

import uuid

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

app = FastAPI()
jobs: dict[str, dict] = {}


class Order(BaseModel):
    task: str


@app.post("/schedule", status_code=202)
async def schedule(order: Order):
    job_id = str(uuid.uuid4())
    jobs[job_id] = {"job_id": job_id, "status": "pending", "task": order.task}
    return {"job_id": job_id}


@app.get("/status/{job_id}")
async def status(job_id: str):
    job = jobs.get(job_id)
    if job is None:
        raise HTTPException(404, "there is no such job")
    return {"job_id": job_id, "status": job["status"]}


@app.get("/health")
async def health():
    return {"status": "ok"}
