// report.html as swarmctl local run leaves it, opened from the disk: it shows what its data say, and asks for nothing.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import axe from "axe-core";
import { launch, there } from "./browser.mjs";
import { grown, hostile, recorded, written } from "./reports.mjs";

describe("report", { skip: !there && "Chromium is missing", concurrency: false }, () => {
  const dir = mkdtempSync(path.join(tmpdir(), "swarm-report-"));
  let browser;
  before(async () => (browser = await launch()));
  after(async () => {
    await browser?.close();
    rmSync(dir, { recursive: true });
  });

  /** Opens a report, and sees to it that it asks for nothing and that the browser has nothing to complain of. */
  async function on(report, { dark = false, width = 1280 }, check) {
    const file = path.join(dir, "report.html");
    writeFileSync(file, written(report));
    const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: dark ? "dark" : "light", reducedMotion: "reduce" });
    const page = await context.newPage();
    const asked = [];
    const complaints = [];
    page.on("request", (r) => asked.push(r.url()));
    page.on("dialog", (d) => complaints.push(d.message()));
    page.on("console", (m) => m.type() === "error" && complaints.push(m.text()));
    page.on("pageerror", (e) => complaints.push(String(e)));
    try {
      await page.goto(pathToFileURL(file).href);
      await page.waitForSelector("main h1");
      await check(page);
      assert.deepEqual(asked, [pathToFileURL(file).href]);
      assert.deepEqual(complaints, []);
    } finally {
      await context.close();
    }
  }

  const text = async (page, selector) => (await page.locator(selector).allInnerTexts()).map((t) => t.replace(/\s+/g, " ").trim());
  const rows = (page, caption) => text(page, `[role=region][aria-label^="${caption}"] tbody tr:not(.paper)`);

  test("figures are those of the data", async () => {
    const r = recorded();
    await on(r, {}, async (page) => {
      assert.equal(await page.title(), "digits: train.py, a swarm of 3 peers");
      assert.equal(await page.locator("h1").innerText(), r.title);
      assert.equal(await page.locator(".lead").innerText(), r.headline);
      assert.match(await page.locator("#reason").innerText(), /^Not all programs ended well: sl-2 ended with exit code 1\nat train\.py, line 7$/);
      assert.deepEqual(await text(page, "#warnings li"), ["sl-1 is <idle>"]);
      assert.deepEqual(await text(page, "#advice li"), ["give more data"]);
      assert.deepEqual(await text(page, ".bars dt"), ["the swarm's model", "sl-0 alone", "sl-1 alone"]);
      assert.deepEqual(await text(page, ".bars .n"), ["0.9500", "0.4000", "0.3500"]);
      assert.deepEqual(await text(page, ".tiles li"), ["3 peers", "4 rounds", "12 s from start to end", "equal final models, byte for byte"]);
      const peers = await rows(page, "Peers");
      assert.deepEqual(peers.map((p) => p.slice(0, 4)), ["sl-0", "sl-1", "sl-2"]);
      assert.match(peers[0], /^sl-0 0\.4000 0\.9500 0\.0500 1,200 4 4 1 2 1b1b1b1b1b1b$/);
      assert.match(peers[2], /failed$/);
      const rounds = await rows(page, "Rounds");
      assert.deepEqual(rounds.map((x) => x.split(" ")[0]), ["4", "3", "2", "1"]);
      assert.match(rounds[2], /^2 \(final\) attempt 1 failed by sl-1: sl-1 sent <nothing> attempt 2 failed: no peer answered sl-0 250 ms 0\.6200 0\.3800 3 9f9f9f9f9f9f$/);
      assert.match(rounds[1], /^3 – sl-0, sl-1 /);
      assert.deepEqual(await page.locator("svg.phases").evaluateAll((all) => all.map((x) => x.getAttribute("aria-label"))), ["training 1.2 s, waiting 9 ms, exchange 247 ms, commit 3 ms", "training –, waiting 40 ms, exchange 500 ms, commit 3 ms"]);
      assert.deepEqual(await text(page, ".rounds .key span"), ["training", "waiting", "exchange", "commit"]);
      assert.match(await page.locator(".rounds > p").last().innerText(), /is known of 2 rounds of 4/);
      assert.match((await rows(page, "What each peer contributed"))[1], /^sl-1 3 of 4 –/);
      assert.match((await rows(page, "Time and traffic"))[0], /^sl-0 5\.0 s 2\.0 s 40 % 1\.23 MB 1\.00 kB$/);
      const made = (await text(page, "#made .facts > div")).join("\n");
      for (const f of r.facts) assert.ok(made.includes(`${f.name} ${f.value}`), f.name);
      assert.equal(await page.locator(".plot canvas").count(), r.charts.length);
    });
  });

  test("values of an epoch by keyboard", async () => {
    const r = recorded();
    await on(r, {}, async (page) => {
      await page.locator(".plot").first().focus();
      await page.keyboard.press("Home");
      await page.getByText("epoch 1", { exact: true }).waitFor();
      assert.deepEqual(await text(page, ".chart:first-child .readout > span"), ["epoch 1", `merged model ${r.charts[0].curves.at(-1).values[0].toFixed(4)}`, "sl-0 0.0800", "sl-1 0.0700"]);
    });
  });

  test("many rounds by page, all of a run on paper, and without figures", async () => {
    const r = grown(40, 700);
    await on(r, {}, async (page) => {
      assert.equal((await rows(page, "Rounds")).length, 25);
      await page.getByRole("button", { name: "older" }).click();
      assert.match((await rows(page, "Rounds"))[0], /^675 /);
      await page.emulateMedia({ media: "print" });
      assert.equal(await page.locator('[aria-label^="Rounds"] tbody tr:visible').count(), 500);
    });
    await on(grown(5, 60), { width: 700 }, async (page) => {
      await page.emulateMedia({ media: "print" });
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0, "wider than the paper");
    });
    await on({ ...r, charts: [], rounds: [], summary: { ...r.summary, peers: [], state: "failed", reason: "no SN answered" }, final_models: "" }, {}, async (page) => {
      assert.match(await page.locator("main").innerText(), /Failed: no SN answered[^]*No program took part\.[^]*neither loss nor metric[^]*No round was committed\./);
    });
  });

  test("names of peers stay words", async () => {
    const r = hostile("</script><script>alert(1)</script><img src=http://x.example/ onerror=alert(2)>");
    await on(r, {}, async (page) => {
      assert.ok((await rows(page, "Peers"))[0].startsWith(r.summary.peers[0].name));
      assert.equal(await page.locator("img").count(), 0);
    });
  });

  for (const dark of [false, true])
    for (const width of [1280, 390])
      test(`axe finds nothing: ${dark ? "dark" : "light"}, ${width} px`, async () => {
        await on(dark ? grown(12, 60) : recorded(), { dark, width }, async (page) => {
          await page.evaluate(axe.source);
          const { violations } = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
          assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target).join(", ")}`), []);
          assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0, "wider than the window");
        });
      });
});
