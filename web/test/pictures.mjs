// Makes pictures of all pages in all states, of the report, and of a real training: node test/pictures.mjs DIRECTORY [PART-OF-A-NAME]
import { writeFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { launch, open } from "./browser.mjs";
import { contract, empty, large, moment, proof, recorded, withJob } from "./documents.mjs";
import { picture } from "./looks.mjs";
import { recorded as report, grown, written } from "./reports.mjs";
import { serve } from "./server.mjs";
import { training } from "./training.mjs";

const [out = "out/pictures", part = ""] = process.argv.slice(2);
const actions = (docs) => ({ ...docs, swarm: { ...docs.swarm, actions: true } });

async function verify(page) {
  await page.getByRole("button", { name: "verify round 61" }).click();
  await page.getByRole("button", { name: "Verify now" }).click();
  await page.getByText("The ledger proves").waitFor();
}

async function colour(page) {
  for (const peer of ["hospital-30", "hospital-7"]) await page.getByLabel("in colour").selectOption(peer);
}

async function stale(page, server) {
  server.link({ state: "stale", sn: "127.0.41.1:30304", since: moment.trouble, problem: "no SN answers", remedy: "start one of sn-1, sn-2, sn-3, or say where another one is: swarmctl dashboard --sn HOST" });
  await page.getByText("This page is stale").waitFor();
}

async function out401(page, server) {
  server.refuse(401);
  server.drop();
  await page.getByText("open the address that swarmctl dashboard printed last").waitFor();
}

const logs = async (page) => {
  await page.getByRole("button", { name: "Show the last lines" }).click();
  await page.locator(".log").waitFor();
};

async function follow(page, server) {
  await page.getByRole("button", { name: /^Follow/ }).first().click();
  await page.getByText("Asking the host…").waitFor();
  while (server.followed().length === 0) await page.waitForTimeout(25);
  server.print(Array.from({ length: 60 }, (_, i) => ({ host: "h", from: "", text: `2026-11-28T01:36:${String(i).padStart(2, "0")}Z round ${i + 1} committed, loss ${(2 / (i + 1)).toFixed(4)}` })));
  await page.getByText("Lines are shown as they come.").waitFor();
}

async function elsewhere(page, server) {
  await follow(page, server);
  const of = withJob("trouble")["job/mnist-ddp"];
  server.set("job/mnist-ddp", { ...of, members: of.members.map((m, i) => (i ? m : { ...m, host: "hospital-b" })) });
  await page.getByText("was placed anew").waitFor();
}

async function ended(page, server) {
  server.link({ state: "ended", sn: "", since: moment.trouble, problem: "the training run has ended", remedy: "see /tmp/out/report.html" });
  await page.getByText("This page has ended").waitFor();
}

async function read(page) {
  await page.getByRole("button", { name: "Approve…" }).click();
  await page.locator(".card .log").waitFor();
}

async function sign(page) {
  await read(page);
  await page.getByRole("button", { name: "Sign the approval" }).click();
  await page.getByText("has yet to take it").waitFor();
}

async function one(page) {
  await page.locator('.swarm a[href="#/node/hospital-18"]').focus();
  await page.locator(".swarm .link.unknown").waitFor({ state: "attached" });
}

/** A task that somebody else has asked for. */
function askedBy() {
  const docs = actions(withJob("trouble"));
  const [a] = docs.approvals.approvals;
  docs.approvals.approvals[0] = { ...a, by: "spiffe://swarm.learning/swarm/swci/ada" };
  docs["body/train"] = { name: "train", digest: a.digest, lines: ["Name: train", "Type: RUN_SWARM", "Command: python3 train.py --epochs 20", "Image: swarm-ml-pyt", "Data: /data"] };
  return docs;
}

const withoutHealth = () => ({ ...recorded("trouble"), health: { error: "get health: not allowed to read health", remedy: "ask an operator for the right" } });
const withoutHistory = () => ({ ...recorded("trouble"), [`history/${contract}`]: { error: "the SN is too old to have a history", remedy: "install a newer swarmd on the SNs" } });
const denied = () => ({ ...recorded("trouble"), events: { error: "spiffe://a.example/swarm/swci/ann may not read the ledger", remedy: "ask an operator for the right audit" } });
const asked = () => ({ ...recorded("trouble"), [`history/${contract}`]: null, [`explain/${contract}`]: null });

const states = [
  ["swarm-training", () => recorded("training"), "training", ""],
  ["swarm-trouble", () => recorded("trouble"), "trouble", ""],
  ["swarm-empty", empty, "waiting", ""],
  ["swarm-large", () => large(100, 10000), "training", ""],
  ["swarm-large-one", () => large(100, 10000), "training", "", one],
  ["swarm-without-health", withoutHealth, "trouble", ""],
  ["swarm-ended", () => recorded("trouble"), "trouble", "", ended],
  ["swarm-stale", () => recorded("trouble"), "trouble", "", stale],
  ["swarm-shut-out", () => recorded("trouble"), "trouble", "", out401],
  ["contracts", () => recorded("training"), "training", "contracts"],
  ["contracts-empty", empty, "waiting", "contracts"],
  ["contract-waiting", () => recorded("waiting"), "waiting", `contract/${contract}`],
  ["contract-training", () => recorded("training"), "training", `contract/${contract}`],
  ["contract-trouble", () => recorded("trouble"), "trouble", `contract/${contract}`],
  ["contract-done", () => recorded("done"), "done", `contract/${contract}`],
  ["contract-large", () => large(100, 10000), "training", `contract/${contract}`, colour],
  ["contract-without-history", withoutHistory, "trouble", `contract/${contract}`],
  ["contract-asked", asked, "trouble", `contract/${contract}`],
  ["contract-missing", () => recorded("trouble"), "trouble", "contract/nothing"],
  ["models", () => recorded("trouble"), "trouble", `models/${contract}`, verify],
  ["models-waiting", () => recorded("waiting"), "waiting", `models/${contract}`],
  ["tasks", () => actions(withJob("trouble")), "trouble", "tasks", (page) => page.getByRole("button", { name: "Refuse…" }).click()],
  ["tasks-read", askedBy, "trouble", "tasks", read],
  ["tasks-signed", askedBy, "trouble", "tasks", sign],
  ["tasks-empty", empty, "waiting", "tasks"],
  ["job", () => withJob("trouble"), "trouble", "job/mnist-ddp"],
  ["job-followed", () => withJob("trouble"), "trouble", "job/mnist-ddp", elsewhere],
  ["node-followed", () => recorded("trouble"), "trouble", "node/sl-0", follow],
  ["node", () => recorded("trouble"), "trouble", "node/sl-0"],
  ["node-logs", () => recorded("trouble"), "trouble", "node/sl-0", logs],
  ["node-banned", () => recorded("trouble"), "trouble", "node/sl-1"],
  ["events", () => recorded("done"), "done", "events"],
  ["events-empty", empty, "waiting", "events"],
  ["events-denied", denied, "trouble", "events"],
];

async function pictureOf(browser, [name, docs, stage, hash, then]) {
  const server = await serve(docs(), { at: moment[stage], proofs: (round) => proof(stage, round) });
  const { page, complaints, close } = await open(browser, server.url, { at: moment[stage], hash });
  await page.waitForSelector(".live.live");
  await page.waitForTimeout(250);
  await then?.(page, server);
  await picture(page, out, name);
  for (const c of complaints) if (!/401|INCOMPLETE/.test(c)) console.log(`${name}: ${c}`); // those are of who is shut out
  await close();
  await server.close();
}

async function pictureOfReport(browser, name, of) {
  const file = path.resolve(out, `${name}.html`);
  writeFileSync(file, written(of));
  const page = await browser.newPage();
  await page.goto(pathToFileURL(file).href);
  await page.waitForSelector("main h1");
  await picture(page, out, name);
  await page.close();
}

const browser = await launch();
try {
  const chosen = (name) => name.includes(part);
  for (const state of states) if (chosen(state[0])) await pictureOf(browser, state);
  for (const [name, of] of [["report", report], ["report-large", () => grown(40, 700)]]) if (chosen(name)) await pictureOfReport(browser, name, of());
  if (chosen("demo")) await training(browser, out);
} finally {
  await browser.close();
}
