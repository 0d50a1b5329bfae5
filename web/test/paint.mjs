// Measures how soon the page stands and how smooth it stays on a slow machine: node test/paint.mjs [LOADS] [SECONDS] [RUNS]
//
// The page of a contract is opened in Chromium, whose processor is made slower; documents are those of the tests. "First paint" is the first
// contentful one, "curves" when all curves are drawn; a page of one line is painted beside it, as the least that there is. Then a round and a status come
// every 0.5 s, and tasks that keep the page for more than 50 ms are counted, and the processor time of tasks is taken. A page that has shown a training for long has more rounds than a new one, and
// thins them while it is measured.
import { createServer } from "node:http";
import { loadavg } from "node:os";
import { launch } from "./browser.mjs";
import { contract, history, large, recorded } from "./documents.mjs";
import { key, serve } from "./server.mjs";

const [loads = 5, seconds = 20, runs = 3] = process.argv.slice(2).map(Number);
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
    if (!seen.curves && document.querySelectorAll(".charts .plot canvas").length === 3 && !document.querySelector("[data-drawing]")) seen.curves = now;
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

/** Traces pages until it is called again; then it returns how much of a processor each task of their main threads took, in ms: what else the machine does counts less there. */
async function trace() {
  const cdp = await browser.newBrowserCDPSession();
  const events = [];
  cdp.on("Tracing.dataCollected", ({ value }) => events.push(...value));
  await cdp.send("Tracing.start", { transferMode: "ReportEvents", traceConfig: { includedCategories: ["toplevel"] } });
  return async () => {
    const whole = new Promise((done) => cdp.once("Tracing.tracingComplete", done));
    await cdp.send("Tracing.end");
    await whole;
    await cdp.detach();
    const main = new Set(events.filter((e) => e.name === "thread_name" && e.args.name === "CrRendererMain").map((e) => `${e.pid} ${e.tid}`));
    return events.filter((e) => e.name === "ThreadControllerImpl::RunTask" && e.tdur && main.has(`${e.pid} ${e.tid}`)).map((e) => e.tdur / 1000);
  };
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

for (const [what, docs] of [["3 nodes, 35 rounds", recorded("training")], ["100 nodes, 10,000 rounds", large(100, 10_000)], ["100 nodes, 1,195 rounds on the page", large(100, 9560, 1195)]]) {
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

    const many = [], longest = [], most = [], took = [], gaps = [];
    for (let i = 0; i < runs; i++) {
      const { page, seen, close } = await visit(`${server.url}#/contract/${contract}`, slower, () => window.seen.curves > 0);
      await page.waitForTimeout(3000);
      await page.evaluate(() => Object.assign(window.seen, { tasks: [], gap: 0 }));
      const traced = await trace();
      const told = rounds(docs);
      for (let n = 0; n < 2 * seconds; n++) {
        const [status, past] = told.next().value;
        server.push(`contract/${contract}`, status);
        server.push(`history/${contract}`, past);
        await new Promise((done) => setTimeout(done, 500));
      }
      const { tasks, gap } = await seen();
      many.push(tasks.length);
      longest.push(Math.max(0, ...tasks));
      gaps.push(gap);
      const ran = await traced();
      most.push(Math.max(...ran));
      took.push(ran.reduce((sum, ms) => sum + ms, 0) / (2 * seconds));
      await close();
    }
    console.log(`${what}, processor ÷ ${slower}: ${2 * seconds} updates in ${seconds} s: ${median(many)} tasks over 50 ms, longest ${median(longest).toFixed(0)} ms (${longest.map((ms) => ms.toFixed(0)).join(", ")}), of processor time ${median(most).toFixed(0)} ms (${most.map((ms) => ms.toFixed(0)).join(", ")}), in all ${median(took).toFixed(0)} ms an update; longest time between two frames ${median(gaps).toFixed(0)} ms; load ${loadavg()[0].toFixed(1)}`);
  }
  await server.close();
}
await browser.close();
least.close();
