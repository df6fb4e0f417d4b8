// A minimal orchestrator: jobs are entries of a dictionary, and nothing runs them.
const { randomUUID } = require("node:crypto");
const express = require("express");

const app = express();
const jobs = new Map();

app.use(express.json());

app.post("/schedule", (request, response) => {
  if (typeof request.body?.task !== "string") {
    return response.status(422).json({ error: "a task is needed" });
  }
  const id = randomUUID();
  jobs.set(id, { job_id: id, status: "pending", task: request.body.task });
  response.status(202).json({ job_id: id });
});

app.get("/status/:id", (request, response) => {
  const job = jobs.get(request.params.id);
  if (job === undefined) {
    return response.status(404).json({ error: "there is no such job" });
  }
  response.json({ job_id: job.job_id, status: job.status });
});

app.get("/health", (_request, response) => {
  response.json({ status: "ok" });
});

app.listen(Number(process.argv[2]), "127.0.0.1");
