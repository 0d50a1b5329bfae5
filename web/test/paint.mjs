// Measures how soon the page stands and how smooth it stays on a slow machine: node test/paint.mjs [LOADS] [SECONDS]
//
// The page of a contract is opened in Chromium, whose processor is made slower; documents are those of the tests. "First paint" is the first
// contentful one, "curves" when all curves are drawn; a page of one line is painted beside it, as the least that there is. Then a round and a status come
// every 0.5 s, and tasks that keep the page for more than 50 ms are counted.
import { createServer } from "node:http";
import { launch } from "./browser.mjs";
import { contract, history, large, recorded } from "./documents.mjs";
import { key, serve } from "./server.mjs";

const [loads = 5, seconds = 20] = process.argv.slice(2).map(Number);
const browser = await launch();
const least = createServer((_, response) => response.writeHead(200, { "Content-Type": "text/html" }).end("<!doctype html><title>x</title><h1>one line</h1>"));
await new Promise((done) => least.listen(0, "127.0.0.1", done));

const median = (all) => all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)];

/** Notes when the page is painted and its curves are there, tasks that take long, and the longest time between two frames. */
function watch(key) {
  sessionStorage.setItem("key", key);
  const seen = (window.seen = { paint: 0, curves: 0, tasks: [], gap: 0 });
  new PerformanceObserver((list) => list.getEntriesByName("first-contentful-paint").forEach((e) => (seen.paint = e.startTime))).observe({ type: "paint", buffered: true });
  new PerformanceObserver((list) => list.getEntries().forEach((e) => seen.tasks.push(e.duration))).observe({ type: "longtask", buffered: true });
  let last = performance.now();
  const frame = () => {
    const now = performance.now();
    seen.gap = Math.max(seen.gap, now - last);
    last = now;
    if (!seen.curves && document.querySelectorAll(".charts .plot canvas").length === 3) seen.curves = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}

/** Opens an address in a browser that was never there, with a processor that is so many times slower. */
async function visit(url, slower, ready) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  await context.addInitScript(watch, key);
  const page = await context.newPage();
  await (await context.newCDPSession(page)).send("Emulation.setCPUThrottlingRate", { rate: slower });
  await page.goto(url);
  await page.waitForFunction(ready, undefined, { timeout: 120_000 });
  return { page, seen: () => page.evaluate(() => window.seen), close: () => context.close() };
}

/** What is told while a training goes on. */
function* rounds(docs) {
  const had = docs[`history/${contract}`];
  const status = docs[`contract/${contract}`];
  const peers = had.rounds.at(-1).peers.map((p) => p.node);
  for (let round = had.rounds.at(-1).round + 1; ; round++) {
    const [next] = history(peers, 1, 1).rounds;
    const sessions = status.sessions.map((s) => ({ ...s, round, loss: 0.2 + 0.1 * Math.random() }));
    yield [{ ...status, sessions, committed: { ...status.committed, round } }, { ...had, after: round - 1, rounds: [{ ...next, round, digest: round.toString(16).padStart(64, "b") }] }];
  }
}

for (const [what, docs] of [["3 nodes, 35 rounds", recorded("training")], ["100 nodes, 10,000 rounds", large(100, 10_000)]]) {
  const server = await serve(docs);
  for (const slower of [1, 4]) {
    const paints = [], curves = [], limits = [];
    for (let i = 0; i < loads; i++) {
      const limit = await visit(`http://127.0.0.1:${least.address().port}/`, slower, () => window.seen.paint > 0);
      limits.push((await limit.seen()).paint);
      await limit.close();
      const one = await visit(`${server.url}#/contract/${contract}`, slower, () => window.seen.paint > 0 && window.seen.curves > 0);
      const seen = await one.seen();
      paints.push(seen.paint);
      curves.push(seen.curves);
      await one.close();
    }
    console.log(`${what}, processor ÷ ${slower}: first paint ${median(paints).toFixed(0)} ms, curves ${median(curves).toFixed(0)} ms; a page of one line ${median(limits).toFixed(0)} ms: times ${(median(paints) / median(limits)).toFixed(1)} and ${(median(curves) / median(limits)).toFixed(1)}`);

    const { page, seen, close } = await visit(`${server.url}#/contract/${contract}`, slower, () => window.seen.curves > 0);
    await page.waitForTimeout(3000);
    await page.evaluate(() => Object.assign(window.seen, { tasks: [], gap: 0 }));
    const told = rounds(docs);
    const before = await page.evaluate(() => performance.now());
    for (let i = 0; i < 2 * seconds; i++) {
      const [status, past] = told.next().value;
      server.push(`contract/${contract}`, status);
      server.push(`history/${contract}`, past);
      await new Promise((done) => setTimeout(done, 500));
    }
    const { tasks, gap } = await seen();
    const took = (await page.evaluate(() => performance.now())) - before;
    console.log(`${what}, processor ÷ ${slower}: ${2 * seconds} updates in ${(took / 1000).toFixed(0)} s: ${tasks.length} tasks over 50 ms, median ${(median(tasks) ?? 0).toFixed(0)}, longest ${Math.max(0, ...tasks).toFixed(0)} ms; longest time between two frames ${gap.toFixed(0)} ms`);
    await close();
  }
  await server.close();
}
await browser.close();
least.close();
