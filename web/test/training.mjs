// Pictures of a real training: the digits example in a swarm of this machine, looked at while it trains, and its report.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { picture } from "./looks.mjs";

const root = path.join(import.meta.dirname, "../..");
const contract = "defaultbb.cqdb.sml.hpe";
const rounds = 60; // until curves say something
const pages = [["swarm", ""], ["contracts", "contracts"], ["contract", `contract/${contract}`], ["models", `models/${contract}`], ["node", "node/sl-0"], ["node-sn", "node/sn-0"], ["events", "events"], ["tasks", "tasks"]];

/** Starts the training, and tells the address of its dashboard. */
async function start(dir) {
  const python = execFileSync(path.join(root, "scripts/demo-python")).toString().trim();
  execFileSync(python, [path.join(root, "examples/digits-pyt/split.py"), "--peers", "3", "--out", path.join(dir, "shards")]);
  const run = ["local", "run", "--sns", "3", "--python", python, "--model-dir", path.join(root, "examples/digits-pyt"), "--model-program", "train.py", "--data-dir", path.join(dir, "shards/{peer}"), "--out", path.join(dir, "out")];
  const swarm = spawn(path.join(root, "bin/swarmctl"), [...run, "--baseline", "--dashboard", "--quiet", "-e", "MAX_EPOCHS=500"], { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  const ended = new Promise((done) => swarm.on("close", done));
  const address = await new Promise((done, fail) => {
    const hear = (text) => {
      said += text;
      const found = /dashboard: (http\S+)/.exec(said);
      if (found) done(found[1]);
    };
    swarm.stdout.on("data", hear);
    swarm.stderr.on("data", hear);
    ended.then((code) => fail(new Error(`swarmctl local run ended with code ${code}:\n${said}`)));
  });
  return { address, ended, stop: () => swarm.kill("SIGINT"), report: path.join(dir, "out/report.html"), said: () => said };
}

const go = (page, hash) => page.evaluate((hash) => (location.hash = hash), `#/${hash}`);

/** The two pictures of the README, sharp on screens of today. */
async function readme(page, out) {
  for (const [name, hash, colorScheme, height] of [["dashboard-contract", `contract/${contract}`, "light", 1000], ["dashboard-swarm", "", "dark", 925]]) {
    await page.setViewportSize({ width: 1240, height });
    await page.emulateMedia({ colorScheme });
    await go(page, hash);
    await page.locator(hash ? ".plot canvas" : ".swarm a").last().waitFor();
    await page.waitForTimeout(2500); // a turn of what is asked for every 2 s
    await page.screenshot({ path: path.join(out, `${name}.png`), scale: "css" });
  }
}

/** Writes pictures of all pages while the swarm trains, of the report, and those of the README. */
export async function training(browser, out) {
  const dir = mkdtempSync(path.join(tmpdir(), "swarm-pictures-"));
  const swarm = await start(dir);
  try {
    const context = await browser.newContext({ deviceScaleFactor: 1.25, reducedMotion: "reduce" });
    const page = await context.newPage();
    page.setDefaultTimeout(120_000);
    await page.goto(swarm.address);
    await go(page, `contract/${contract}`);
    await page.waitForFunction((rounds) => Number(document.querySelector("[aria-label^=Rounds] tbody th")?.textContent) >= rounds, rounds);
    await readme(page, out);
    for (const [name, hash] of pages) {
      await go(page, hash);
      await page.waitForTimeout(2500);
      await picture(page, out, `demo-${name}`);
    }
    await swarm.ended;
    await page.goto(pathToFileURL(swarm.report).href);
    await page.waitForSelector("main h1");
    await picture(page, out, "demo-report");
    await context.close();
  } finally {
    swarm.stop();
    await swarm.ended;
    rmSync(dir, { recursive: true, force: true });
  }
}
