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

const withoutHistory = () => ({ ...recorded("trouble"), [`history/${contract}`]: { error: "the SN is too old to have a history", remedy: "install a newer swarmd on the SNs" } });
const denied = () => ({ ...recorded("trouble"), events: { error: "spiffe://a.example/swarm/swci/ann may not read the ledger", remedy: "ask an operator for the right audit" } });
const asked = () => ({ ...recorded("trouble"), [`history/${contract}`]: null, [`explain/${contract}`]: null });

const states = [
  ["swarm-training", () => recorded("training"), "training", ""],
  ["swarm-trouble", () => recorded("trouble"), "trouble", ""],
  ["swarm-empty", empty, "waiting", ""],
  ["swarm-large", () => large(100, 10000), "training", ""],
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
  ["tasks-empty", empty, "waiting", "tasks"],
  ["job", () => withJob("trouble"), "trouble", "job/mnist-ddp"],
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
