// Makes screenshots of all pages in light, dark and at phone width: node test/shots.mjs DIRECTORY [NAME-PART]
import { mkdirSync } from "node:fs";
import path from "node:path";
import { launch, open } from "./browser.mjs";
import { contract, empty, large, moment, proof, recorded, withJob } from "./documents.mjs";
import { serve } from "./server.mjs";

const [out = "out/shots", part = ""] = process.argv.slice(2);
mkdirSync(out, { recursive: true });
const browser = await launch();

const actions = (docs) => ({ ...docs, swarm: { ...docs.swarm, actions: true } });
const pages = [
  ["swarm-training", () => recorded("training"), "training", ""],
  ["swarm-trouble", () => recorded("trouble"), "trouble", ""],
  ["swarm-empty", empty, "waiting", ""],
  ["swarm-large", () => large(100, 10000), "training", ""],
  ["contracts", () => recorded("training"), "training", "contracts"],
  ["contract-waiting", () => recorded("waiting"), "waiting", `contract/${contract}`],
  ["contract-training", () => recorded("training"), "training", `contract/${contract}`],
  ["contract-trouble", () => recorded("trouble"), "trouble", `contract/${contract}`],
  ["contract-done", () => recorded("done"), "done", `contract/${contract}`],
  ["contract-large", () => large(100, 10000), "training", `contract/${contract}`, async (page) => { await page.getByLabel("in colour").selectOption("hospital-30"); await page.getByLabel("in colour").selectOption("hospital-7"); }],
  ["models", () => recorded("trouble"), "trouble", `models/${contract}`, (page) => page.getByRole("button", { name: "verify round 61" }).click().then(() => page.getByRole("button", { name: "Verify now" }).click()).then(() => page.getByText("The ledger proves").waitFor())],
  ["tasks", () => actions(withJob("trouble")), "trouble", "tasks", (page) => page.getByRole("button", { name: "Refuse…" }).click()],
  ["job", () => withJob("trouble"), "trouble", "job/mnist-ddp"],
  ["node", () => recorded("trouble"), "trouble", "node/sl-0"],
  ["node-banned", () => recorded("trouble"), "trouble", "node/sl-1"],
  ["stale", () => recorded("trouble"), "trouble", "", (page, server) => { server.link({ state: "stale", sn: "127.0.41.1:30304", since: moment.trouble, problem: "no SN answers", remedy: "start one of sn-1, sn-2, sn-3, or say where another one is: swarmctl dashboard --sn HOST" }); return page.getByText("This page is stale").waitFor(); }],
  ["no-history", () => ({ ...recorded("trouble"), [`history/${contract}`]: { error: "the SN is too old to have a history", remedy: "install a newer swarmd on the SNs" } }), "trouble", `contract/${contract}`],
  ["events", () => recorded("done"), "done", "events"],
];
for (const [name, docs, stage, hash, then] of pages.filter(([name]) => name.includes(part))) {
  const server = await serve(docs(), { at: moment[stage], proofs: (round) => proof(stage, round) });
  for (const [look, options] of [["light", {}], ["dark", { dark: true }], ["phone", { width: 390, height: 844 }]]) {
    const { page, complaints, close } = await open(browser, server.url, { at: moment[stage], hash, ...options });
    await page.waitForTimeout(250);
    await then?.(page, server);
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (over > 0) console.log(`${name}, ${look}: ${over} px too wide`);
    for (const c of complaints) console.log(`${name}, ${look}: ${c}`);
    await page.screenshot({ path: path.join(out, `${name}-${look}.png`), fullPage: true });
    await close();
  }
  await server.close();
}
await browser.close();
