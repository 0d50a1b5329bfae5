// What the plays have: the page in Chromium, swarmctl beside it, and the swarm's processes.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import path from "node:path";
import { promisify } from "node:util";
import axe from "axe-core";
import { runnerImport } from "vite";
import { launch } from "../browser.mjs";

/** address: what the dashboard printed; ctl and at: swarmctl and who asks; sns: API addresses by name; stage: where processes are killed and started. */
export const live = JSON.parse(process.env.LIVE);

/** How the page writes numbers. */
export const write = (await runnerImport(path.join(import.meta.dirname, "../../src/format.ts"), { configFile: false, logLevel: "error" })).module;

const gone = new Set(); // SNs
export const run = async (...args) => {
  const sns = Object.entries(live.sns).flatMap(([name, api]) => (gone.has(name) ? [] : ["--sn", api]));
  return (await promisify(execFile)(live.ctl, [...args, ...live.at, ...sns], { maxBuffer: 1 << 26 })).stdout;
};

/** What a command prints as JSON. */
export const json = async (...args) => JSON.parse(await run(...args, "-o", "json"));

/** Has the Go test do something to a node: kill sl-1. */
export async function stage(does, node) {
  const answer = await fetch(`${live.stage}/${does}/${node}`, { method: "POST" });
  assert.ok(answer.ok, await answer.text());
  if (does.startsWith("kill")) gone.add(node);
  if (does === "start") gone.delete(node);
}

const browser = await launch();
export const newTab = async () => (await browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: "reduce" })).newPage();
export const page = await newTab();
page.setDefaultTimeout(30_000);
export const complaints = [];
page.on("pageerror", (e) => complaints.push(String(e)));
export const close = () => browser.close();

const began = Date.now();
export const tell = (what) => console.log(`live: ${((Date.now() - began) / 1000).toFixed(1)} s: ${what}`);

/** Tries until what the page shows and what swarmctl prints are of the same moment. */
export async function agree(what, check) {
  const end = Date.now() + 30_000;
  for (;;) {
    try {
      await check();
      tell(what);
      return;
    } catch (e) {
      if (Date.now() > end) throw new Error(`${what}: ${e.message}`, { cause: e });
      await new Promise((done) => setTimeout(done, 200));
    }
  }
}

/** What the page shows while it is live. */
export const liveSign = '[class="live live"]';

/** Opens the page's first address, and waits until it is live. */
export async function enter(address = live.address) {
  await page.goto(address);
  await page.waitForSelector(liveSign);
  assert.ok(!page.url().includes("token") && !page.url().includes("key"), page.url());
  await page.evaluate(() => (window.same = true)); // until a reload
}

export async function to(hash, heading) {
  await page.evaluate((hash) => (location.hash = hash), `#/${hash}`);
  await page.getByRole("heading", { level: 1, name: heading }).waitFor();
}

export const main = async () => (await page.locator("main").innerText()).replace(/\s+/g, " ");

/** The rows of a table: texts by heading. Times and digests are as JSON has them, and drawings what they say to who can't see them. */
export const table = (caption) =>
  page.locator(`[role=region][aria-label^="${caption}"]`).evaluate((frame) => {
    const said = (cell) => {
      const copy = cell.cloneNode(true);
      for (const x of copy.querySelectorAll("time")) x.replaceWith(x.dateTime);
      for (const x of copy.querySelectorAll("button.digest")) x.replaceWith(x.title.replace(/: click to copy$/, ""));
      for (const x of copy.querySelectorAll("svg")) x.replaceWith(x.getAttribute("aria-label") ?? "", " ");
      return copy.textContent.replace(/\s+/g, " ").trim();
    };
    const heads = [...frame.querySelectorAll("thead th")].map(said);
    const rows = [...frame.querySelectorAll("tbody > tr:not(.detail)")].filter((tr) => tr.closest(".frame") === frame);
    return rows.map((tr) => Object.fromEntries([...tr.cells].map((cell, i) => [heads[i], said(cell)])));
  });

/** Names and values in a part of the page, as table has them. */
export const facts = (part) =>
  page.locator("section", { has: page.getByRole("heading", { name: part, exact: true }) }).first().evaluate((section) =>
    Object.fromEntries(
      [...section.querySelectorAll("dl.facts > div")].map((div) => {
        const dd = div.querySelector("dd").cloneNode(true);
        for (const x of dd.querySelectorAll("time")) x.replaceWith(x.dateTime);
        for (const x of dd.querySelectorAll("button.digest")) x.replaceWith(x.title.replace(/: click to copy$/, ""));
        return [div.querySelector("dt").textContent, dd.textContent.replace(/\s+/g, " ").trim()];
      }),
    ),
  );

/** Wants some cells of each row, and no other row. */
export function same(rows, wanted, what) {
  assert.deepEqual(rows.map((row, i) => Object.fromEntries(Object.keys(wanted[i] ?? row).map((key) => [key, row[key]]))), wanted, what);
}

const looks = [["light", 1280], ...(process.env.SWARM_TEST_LONG ? [["dark", 1280], ["light", 390], ["dark", 390]] : [])];

/** Wants nothing that axe takes for serious, and no page that is wider than the window; in tests that may take long also in dark and on a phone. */
export async function sound(what) {
  for (const [colorScheme, width] of looks) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await page.setViewportSize({ width, height: 900 });
    await page.evaluate(axe.source);
    const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
    const bad = found.violations.filter((v) => ["serious", "critical"].includes(v.impact));
    assert.deepEqual(bad.map((v) => `${v.id}: ${v.help}: ${v.nodes[0].html}`), [], `${what}, ${colorScheme}, ${width} px`);
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(over <= 0, `${what} is ${over} px wider than ${width} px`);
  }
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  await page.setViewportSize({ width: 1280, height: 900 });
}
