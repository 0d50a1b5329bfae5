// Drives the page of a real swarm, and compares what it shows with what swarmctl prints: node test/live.mjs, with the swarm in LIVE as JSON.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import axe from "axe-core";
import { launch } from "./browser.mjs";

/** address: what the dashboard printed; ctl: swarmctl as a command line; sns: their API addresses; pids: processes by node. */
const { address, ctl, at, sns, pids, contract } = JSON.parse(process.env.LIVE);
let asked = sns;
const run = async (...args) => (await promisify(execFile)(ctl, [...args, ...at, ...asked.flatMap((sn) => ["--sn", sn])])).stdout;
const json = async (...args) => JSON.parse(await run(...args, "-o", "json"));

const browser = await launch();
const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: "reduce" });
const page = await context.newPage();
page.setDefaultTimeout(30_000);
const complaints = [];
page.on("pageerror", (e) => complaints.push(String(e)));

const rows = async (caption) => (await page.locator(`[role=region][aria-label^="${caption}"] tbody tr`).allInnerTexts()).map((t) => t.replace(/\s+/g, " ").trim());

/** Tries until what the page shows and what swarmctl prints are of the same moment. */
async function agree(what, check) {
  const end = Date.now() + 30_000;
  for (;;) {
    try {
      await check();
      console.log(`live: ${what}`);
      return;
    } catch (e) {
      if (Date.now() > end) throw new Error(`${what}: ${e.message}`, { cause: e });
      await new Promise((done) => setTimeout(done, 200));
    }
  }
}

async function to(hash, heading) {
  await page.evaluate((hash) => (location.hash = hash), `#/${hash}`);
  await page.getByRole("heading", { level: 1, name: heading }).waitFor();
}

async function sound(what) {
  await page.evaluate(axe.source);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const bad = found.violations.filter((v) => ["serious", "critical"].includes(v.impact));
  assert.deepEqual(bad.map((v) => `${v.id}: ${v.help}: ${v.nodes[0].html}`), [], what);
}

async function nodes() {
  const { nodes } = await json("list", "nodes");
  const shown = await rows("Nodes");
  assert.equal(shown.length, nodes.length);
  for (const n of nodes) {
    const row = shown.find((r) => r.startsWith(`${n.name} `));
    assert.ok(row, n.name);
    assert.equal(row.includes("leader"), n.leader, row);
    assert.equal(row.includes("Sentinel"), n.sentinel, row);
    assert.equal(row.includes("banned"), n.banned, row);
    assert.equal(/\bdead\b/.test(row), !n.banned && n.state === "dead", row);
  }
}

try {
  await page.goto(address);
  await page.waitForSelector(".live.live");
  assert.ok(!page.url().includes("token") && !page.url().includes("key"), page.url());
  await page.evaluate(() => (window.same = true)); // until a reload
  await agree("swarm", nodes);
  await sound("swarm");

  const used = await (await browser.newContext()).newPage();
  assert.equal((await used.goto(address)).status(), 403);
  await used.getByText("was used before").first().waitFor();

  await to("tasks", "Tasks");
  await agree("an approval waits", async () => {
    const { approvals } = await json("list", "approvals");
    assert.equal(approvals.length, 1);
    assert.ok((await page.locator("main").innerText()).includes(approvals[0].digest.slice(0, 12)));
  });
  await sound("tasks");
  await page.getByRole("button", { name: "Approve…" }).click();
  await page.getByRole("button", { name: "Sign the approval" }).click();
  await agree("the host goes on", async () => assert.equal((await json("list", "approvals")).approvals.length, 0));

  await to(`contract/${contract}`, contract);
  await agree("rounds", async () => {
    const { rounds } = await json("get", "contract", "history", contract);
    const shown = await rows("Rounds");
    for (const r of rounds.slice(-3)) assert.ok(shown.some((row) => row.startsWith(`${r.round} `) && row.includes(r.digest.slice(0, 12))), `round ${r.round}`);
  });
  await sound("contract");
  process.kill(pids["sl-3"], "SIGKILL");
  await agree("a killed SL", async () => {
    const { sessions } = await json("get", "contract", "status", contract);
    const lost = sessions.find((s) => s.node === "sl-3");
    assert.ok(lost && (!lost.live || lost.state === "ended"), "sl-3 still lives");
    assert.match((await rows("Peers")).find((r) => r.startsWith("sl-3 ")), /dead|lost/);
  });

  await to(`models/${contract}`, contract);
  await page.getByRole("button", { name: /^verify round/ }).last().click();
  await page.getByRole("button", { name: "Verify now" }).click();
  await page.getByText("The ledger has this model").waitFor();
  await sound("models");

  await run("ban", "node", "sl-2", "--reason", "laptop was stolen");
  await to("node/sl-2", "sl-2");
  await page.getByText("“laptop was stolen”").first().waitFor();
  await sound("node");
  await to("events", "Events");
  await agree("events", async () => {
    const shown = await rows("Events");
    assert.ok(shown.some((r) => r.includes("laptop was stolen") && r.includes("sl-2")), shown.slice(0, 3).join("\n"));
  });
  await sound("events");

  await to("", "Swarm");
  await agree("a banned node", nodes);
  const word = await page.locator(".live .sn").innerText();
  const names = sns.map((_, i) => `sn-${i + 1}`); // the page says a name or an address
  const gone = names.find((name, i) => word.includes(name) || word.includes(sns[i]));
  assert.ok(gone, `the page asks ${word}`);
  process.kill(pids[gone], "SIGKILL");
  asked = sns.filter((_, i) => names[i] !== gone);
  await agree("another SN", async () => {
    assert.notEqual(await page.locator(".live.live .sn").innerText({ timeout: 1000 }), word);
    await nodes();
  });
  assert.equal(await page.evaluate(() => window.same), true, "the page was loaded again");
  assert.deepEqual(complaints, []);
} finally {
  await browser.close();
}
