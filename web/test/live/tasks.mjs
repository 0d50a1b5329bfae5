// The pages of tasks and of a job.
import assert from "node:assert/strict";
import { agree, facts, json, main, page, same, table, to, write } from "./stage.mjs";

const ended = (a) => a.verdict || a.phase;

/** The page of tasks lists what swarmctl lists. */
export async function tasks() {
  await to("tasks", "Tasks");
  await agree("tasks, assignments and jobs", async () => {
    const [{ tasks }, { assignments }, { runs }, { approvals }] = await Promise.all([json("list", "tasks"), json("list", "assignments"), json("list", "jobs"), json("list", "approvals")]);
    same(await table("Tasks"), tasks.map((t) => ({
      task: t.name, type: t.type, state: t.status === "FINALIZED" ? "final" : "can be changed", digest: t.digest || "–", after: t.prereq || "–", makes: t.outcome || "–", by: t.by || "–", made: t.created ?? "–",
    })), "tasks");
    same(await table("Assignments"), assignments.reverse().map((a) => ({
      task: a.task, type: a.task_type || "deleted", state: ended(a), hosts: write.count(a.members), "waits for, or why it ended": (a.verdict ? a.reason : a.wants) || "–",
      taskrunner: a.taskrunner || "–", by: a.by, assigned: a.created, changed: a.ended ?? a.changed,
    })), "assignments");
    same(await table("Jobs"), runs.reverse().map((r) => ({
      job: r.job, state: ended(r), members: write.count(r.members), starts: String(r.epoch), by: r.by, begun: r.created, changed: r.ended ?? r.changed,
      "waits for, or why it ended": r.verdict ? [r.end, r.reason].filter(Boolean).join(": ") : r.wants || "–",
    })), "jobs");
    const cards = await page.locator(".card").allInnerTexts();
    assert.equal(cards.length, approvals.length);
    for (const a of approvals) assert.ok(cards.some((c) => c.includes(a.task) && c.includes(a.host) && c.includes(a.digest.slice(0, 12)) && c.includes(a.by)), `${a.task} on ${a.host}`);
  });
}

const card = (task) => page.locator(".card", { hasText: task });

/** Refuses a job on the page, in words that all see. */
export async function refuse(job, reason) {
  const run = async () => (await json("list", "jobs")).runs.find((r) => r.job === job);
  await to("tasks", "Tasks");
  const { task } = await run();
  await card(task).getByRole("button", { name: "Refuse…" }).click();
  await card(task).getByRole("textbox", { name: "because" }).fill(reason);
  await card(task).getByRole("button", { name: "Sign the refusal" }).click();
  await agree("a refused job", async () => {
    const refused = await run();
    assert.equal(refused.verdict, "failed");
    assert.ok(refused.reason.includes(reason), refused.reason);
    const { deeds } = await json("audit", "--job", job);
    const deed = deeds.find((d) => d.does === "refused");
    assert.deepEqual([deed.by, deed.reason], [(await json("identity")).spiffe_id, reason]);
  });
}

/** Approves a task on the page, and wants its host to go on. */
export async function approve(task) {
  await to("tasks", "Tasks");
  await card(task).getByRole("button", { name: "Approve…" }).click();
  await card(task).getByRole("button", { name: "Sign the approval" }).click();
  await agree("the host goes on", async () => {
    assert.ok(!(await json("list", "approvals")).approvals.some((a) => a.task === task));
    assert.equal(await card(task).count(), 0);
    assert.notEqual((await json("list", "assignments")).assignments.find((a) => a.task === task).phase, "waiting");
  });
}

/** The page of a job says what get job status says. */
export async function job(name) {
  await to("tasks", "Tasks");
  await page.getByRole("link", { name, exact: true }).click();
  await page.getByRole("heading", { level: 1, name }).waitFor();
  await agree(`job ${name}`, async () => {
    const { run, members, hosts } = await json("get", "job", "status", name);
    const text = await main();
    assert.ok(text.includes([ended(run), run.verdict ? [run.end, run.reason].filter(Boolean).join(": ") : run.wants].join(" ").trim()), text);
    if (members.length > 0) {
      same(await table("Members"), members.map((m) => ({
        member: `${m.group}/${m.rank}`, host: m.host, state: m.state, "exit code": String(m.exit_code ?? "–"), "what its host says": m.text || "–", cleaned: m.cleaned ? "yes" : "not yet", changed: m.changed,
      })), "members");
    }
    const about = await facts("About this run");
    assert.deepEqual([about["asked for by"], about.task, about["digest of the task"], about["hosts that may have members"]], [run.by, run.task, run.digest, hosts.join(", ")]);
  });
}
