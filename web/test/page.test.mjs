// The page in a browser: what it shows is what the documents say, in every state that a swarm can be in.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import axe from "axe-core";
import { launch, open, there } from "./browser.mjs";
import { contract, empty, figures, history, large, moment, noticed, proof, recorded, withJob } from "./documents.mjs";
import { key, serve } from "./server.mjs";

describe("page", { skip: !there && "Chromium is missing", concurrency: false }, () => {
  let browser;
  before(async () => (browser = await launch()));
  after(() => browser?.close());

  /** Opens a page with documents, and sees to it that the browser has nothing to complain of. */
  async function on(docs, { stage = "trouble", ...options }, check) {
    const server = await serve(docs, { at: moment[stage], proofs: (round) => proof(stage, round) });
    const { page, complaints, close } = await open(browser, server.url, { at: moment[stage], ...options });
    try {
      await check(page, server);
      assert.deepEqual(complaints.filter((c) => !options.expect?.test(c)), []);
    } finally {
      await close();
      await server.close();
    }
  }

  const text = async (page, selector) => (await page.locator(selector).allInnerTexts()).map((t) => t.replace(/\s+/g, " ").trim());
  const rows = (page, caption) => text(page, `[role=region][aria-label^="${caption}"] tbody tr`);

  test("swarm: nodes, what is waited for, and each node on the map", async () => {
    const docs = recorded("trouble");
    await on(docs, {}, async (page) => {
      await page.waitForSelector(".swarm");
      const shown = await rows(page, "Nodes");
      assert.equal(shown.length, docs.nodes.nodes.length);
      for (const n of docs.nodes.nodes) {
        const row = shown.find((r) => r.startsWith(`${n.name} `));
        assert.match(row, new RegExp(n.banned ? "banned" : n.live ? "healthy" : "dead"), n.name);
        assert.equal(row.includes("leader"), n.leader, n.name);
        assert.equal(row.includes("Sentinel"), n.sentinel, n.name);
        assert.equal(await page.locator(`.swarm a[href="#/node/${n.name}"]`).count(), 1, n.name);
      }
      const waits = await text(page, ".waits li");
      assert.ok(waits.some((w) => w.includes(docs[`explain/${contract}`].waiting)), waits.join("\n"));
      assert.ok(waits.some((w) => w.includes("start sl-2 again")));
      assert.ok(waits.some((w) => w.startsWith("banned sl-1") && w.includes("laptop was stolen")));
      assert.ok(waits.some((w) => w.startsWith("approval swop-1 asks")));
    });
  });

  const drawn = (page, kind) => page.locator(`.swarm .link.${kind}`).evaluateAll((all) => all.reduce((n, x) => n + (x.getAttribute("d").match(/M/g)?.length ?? 0), 0));

  test("map: lines are connections of which health tells, and there are none where it is not known", async () => {
    const docs = recorded("training");
    const [a, b, c] = docs.health.linked[0].nodes;
    docs.health.pairs = [{ a, b, state: "not known", dials: "", detail: `neither of ${a} and ${b} tells of it`, remedy: "" }];
    await on(docs, { stage: "training" }, async (page, server) => {
      await page.waitForSelector(".swarm");
      const counts = async () => Object.fromEntries(await Promise.all(["models", "control", "raft", "unknown"].map(async (kind) => [kind, await drawn(page, kind)])));
      assert.deepEqual(await counts(), { models: 2, control: 3, raft: 2, unknown: 1 });
      assert.ok((await text(page, ".map .key"))[0].includes("not known"));
      const told = await page.locator(`.swarm [data-node="${c}"] > title`).textContent();
      const of = docs.nodes.nodes.find((n) => n.name === c);
      for (const words of [`version ${of.version}`, `runs programs as ${of.runtime}`, "seen by a leader 2026-11-28 01:3"]) assert.ok(told.includes(words), told);
      server.set("nodes", { ...docs.nodes, nodes: docs.nodes.nodes.map((n) => (n.name === c ? { ...n, live: false, state: "dead" } : n)) }); // what health tells of it is old
      await page.waitForFunction(() => document.querySelector(".link.models").getAttribute("d") === "");
      assert.deepEqual(await counts(), { models: 0, control: 2, raft: 2, unknown: 1 });
    });
    docs.health = { error: "get health: not allowed", remedy: "ask an operator" };
    await on(docs, { stage: "training" }, async (page) => {
      await page.getByText("No connection is drawn: health is not known.").waitFor();
      assert.equal(await drawn(page, "link"), 0);
      assert.equal(await page.locator(".swarm a").count(), docs.nodes.nodes.length);
    });
  });

  test("contract: peers, rounds, a failed attempt and rules", async () => {
    const docs = recorded("trouble");
    const status = docs[`contract/${contract}`];
    await on(docs, { hash: `contract/${contract}` }, async (page) => {
      await page.waitForSelector(".plot canvas");
      const peers = await rows(page, "Peers");
      assert.equal(peers.length, status.sessions.length);
      for (const s of status.sessions) {
        const row = peers.find((r) => r.startsWith(s.node));
        assert.ok(row.includes(`${s.epochs_done} of ${s.total_epochs}`), row);
        assert.ok(row.includes(s.loss.toFixed(4)) && row.includes(s.metric.toFixed(4)), row);
      }
      const all = docs[`history/${contract}`].rounds;
      const shown = await rows(page, "Rounds");
      assert.equal(shown.length, 25);
      assert.ok(shown[0].startsWith(`${all.at(-1).round} `) && shown[0].includes(all.at(-1).digest.slice(0, 12)), shown[0]);
      await page.getByRole("button", { name: "with failed attempts" }).click();
      const failed = await rows(page, "Rounds");
      assert.deepEqual(failed.length, 1);
      assert.match(failed[0], /attempt 1 failed by sl-2: sl-2 sent no more of its part/);
      const said = (await text(page, ".explain li, .explain p")).join("\n");
      assert.match(said, /^advice .*share the SPIFFE ID/m);
      assert.equal(await page.locator(".explain li", { hasText: "share the SPIFFE ID" }).count(), 0);
      for (const line of docs[`explain/${contract}`].explanation.filter((l) => !l.startsWith("to do"))) assert.ok(said.includes(line), line);
      assert.match(await page.locator(".facts").last().innerText(), /required peers\s+sl-0/);
    });
  });

  test("contract: values of a round by keyboard, and a log scale", async () => {
    const docs = recorded("trouble");
    await on(docs, { hash: `contract/${contract}` }, async (page) => {
      const plot = page.locator(".plot").first();
      await plot.focus();
      await page.keyboard.press("Home");
      const first = docs[`history/${contract}`].rounds[0];
      const readout = page.locator(".readout").first();
      await page.waitForFunction(() => document.querySelector(".readout .at").textContent === "round 1");
      assert.ok((await readout.innerText()).includes(first.loss.toFixed(4)), await readout.innerText());
      await page.keyboard.press("ArrowRight");
      await page.waitForFunction(() => document.querySelector(".readout .at").textContent === "round 2");
      const log = page.locator(".chart").first().getByRole("button", { name: "log scale" });
      await log.click();
      assert.equal(await log.getAttribute("aria-pressed"), "true");
      assert.equal(await page.locator(".chart").first().locator("canvas").count(), 1);
    });
  });

  test("contract: rounds that follow are added, and a reset is said", async () => {
    const docs = recorded("training");
    await on(docs, { stage: "training", hash: `contract/${contract}` }, async (page, server) => {
      await page.waitForSelector(".plot canvas");
      const had = docs[`history/${contract}`];
      const next = { ...had.rounds.at(-1), round: 36, digest: "5".repeat(64) };
      const bare = { ...next, loss: null, metric: null, peers: next.peers.map((p) => ({ ...p, loss: null, metric: null })) };
      server.push(`history/${contract}`, { ...had, after: 35, rounds: [bare], thinned: 0 });
      await page.getByText("1 to 25 of 36").waitFor();
      assert.equal((await rows(page, "Rounds"))[0].match(/not reported yet/g)?.length, 2);
      assert.equal(await page.getByText("are plain means there").count(), 0);
      server.push(`history/${contract}`, { ...had, after: 35, rounds: [{ ...bare, loss: next.loss, peers: bare.peers.map((p, i) => ({ ...p, loss: i ? null : 0.1234 })) }], thinned: 0 });
      await page.waitForFunction(() => document.querySelectorAll("[aria-label^=Rounds] tbody .soft").length === 1); // the metric is awaited
      assert.equal(await page.locator(".readout .at").first().innerText(), "round 35"); // of which all peers have reported
      const plain = { ...had.rounds.at(-2), weighted: false };
      server.push(`history/${contract}`, { ...had, after: 33, rounds: [plain], thinned: 0 });
      await page.getByText("The weights of 1 round are not known: loss and metric of the merged model are plain means there.").waitFor();
      assert.equal(await page.locator(".readout .at").first().innerText(), "round 35"); // nothing is reported of the newest yet
      const again = { ...had.rounds.at(-1), digest: "6".repeat(64) };
      server.push(`history/${contract}`, { ...had, after: 34, rounds: [again, next], thinned: 0 });
      await page.getByText("666666666666").waitFor();
      const shown = await rows(page, "Rounds");
      assert.ok(shown[0].includes("555555555555") && shown[1].includes("666666666666") && shown[2].startsWith("34 "), shown.slice(0, 3).join("\n"));
      const status = docs[`contract/${contract}`];
      server.set(`contract/${contract}`, { ...status, run: 2, phase: "enrolling", committed: null, sessions: [], rounds: [] });
      server.push(`history/${contract}`, { ...had, run: 2, earlier: [1], rounds: [], thinned: 0 });
      await page.getByText("The contract was reset while you looked at it: this is run 2, that was run 1.").waitFor();
      await page.getByText("No round was committed yet.").waitFor();
      await page.getByText("No program takes part yet.").waitFor();
      server.set(`contract/${contract}`, { ...status, run: 7, phase: "enrolling", committed: null, sessions: [], rounds: [] }); // it was removed, and is made anew
      server.push(`history/${contract}`, { ...had, run: 7, earlier: [], rounds: [], thinned: 0 });
      await page.getByText("The contract began anew while you looked at it: this is run 7.").waitFor();
      assert.equal(await page.getByText("was reset").count(), 0);
    });
  });

  test("contract: how long peers still train, and that it is stuck, is what swarmctl says of it", async () => {
    const docs = recorded("training");
    const status = docs[`contract/${contract}`];
    await on(docs, { stage: "training", hash: `contract/${contract}` }, async (page, server) => {
      await page.getByRole("heading", { name: "Where it is" }).waitFor();
      assert.match((await rows(page, "Peers"))[0], /9 of 60 about 15 s /);
      server.set(`contract/${contract}`, { ...status, stuck: true, sessions: status.sessions.map((x) => ({ ...x, left_seconds: null })) });
      await page.getByRole("heading", { name: "What it waits for" }).waitFor(); // whatever the sentence is
      assert.match((await rows(page, "Peers"))[0], /9 of 60 – /);
    });
  });

  test("the address leads to the key, which tabs tell each other, and nobody else has it", async () => {
    const server = await serve(recorded("trouble"), { at: moment.trouble });
    const context = await browser.newContext();
    const live = (page) => page.waitForSelector(".live.live");
    try {
      const first = await context.newPage();
      await first.goto(`${server.url}?token=T`);
      await live(first);
      assert.equal(first.url(), server.url); // the key is in no address that can be copied
      assert.equal(await first.evaluate(() => sessionStorage.getItem("key")), key);
      await first.reload();
      await live(first);
      const second = await context.newPage();
      await second.goto(`${server.url}#/contracts`);
      await live(second);
      await first.close();
      await second.close();
      const alone = await context.newPage(); // it has the cookie, and no tab is there that has the key
      await alone.goto(server.url);
      await alone.getByText("This page was not let in.").waitFor();
      await alone.getByText("open the address that swarmctl dashboard printed last").waitFor();
      const next = await context.newPage();
      await next.goto(`${server.url}?token=T`);
      await live(alone);
    } finally {
      await context.close();
      await server.close();
    }
  });

  test("a key that is no good takes no other's place, in no tab, and a new one reaches all tabs", async () => {
    const server = await serve(recorded("trouble"), { at: moment.trouble });
    const context = await browser.newContext();
    const live = (page) => page.waitForSelector(".live.live");
    const has = (page) => page.evaluate(() => sessionStorage.getItem("key"));
    try {
      const first = await context.newPage();
      await first.goto(`${server.url}?token=T`);
      await live(first);
      const completed = await context.newPage(); // the browser completes an earlier address, or another site opens it
      await completed.goto(`${server.url}#key=OLDKEY`);
      await live(completed);
      assert.deepEqual([await has(first), await has(completed)], [key, key]);
      server.drop();
      await live(first);
      assert.equal(await first.getByText("was not let in").count(), 0);

      server.rekey("NEXTKEY");
      const restored = await context.newPage(); // with an old key in its storage, which it may tell others
      await restored.addInitScript(() => sessionStorage.getItem("key") || sessionStorage.setItem("key", "OLDKEY"));
      await restored.goto(server.url);
      await restored.getByText("This page was not let in.").waitFor();
      const next = await context.newPage();
      await next.goto(`${server.url}?token=T`);
      server.drop();
      for (const page of [first, completed, restored, next]) {
        await page.waitForFunction(() => sessionStorage.getItem("key") === "NEXTKEY");
        await page.getByText("was not let in").waitFor({ state: "detached" });
      }
    } finally {
      await context.close();
      await server.close();
    }
  });

  /** Brings the page to the front, or puts it behind others. */
  const show = (page, seen) =>
    page.evaluate((hidden) => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
      document.dispatchEvent(new Event("visibilitychange"));
    }, !seen);

  /** Waits until pages have a number of streams. */
  const streams = async (server, n) => {
    for (let i = 0; server.streams() !== n; i++) {
      assert.ok(i < 200, `${server.streams()} streams, not ${n}`);
      await new Promise((done) => setTimeout(done, 25));
    }
  };

  test("a page that nobody sees has no stream, and one that is shown again has", async () => {
    await on(recorded("trouble"), {}, async (page, server) => {
      await page.waitForSelector(".live.live");
      await streams(server, 1);
      await show(page, false);
      await streams(server, 0);
      assert.equal(await page.getByText("This page is stale").count(), 0);
      await show(page, true);
      await streams(server, 1);
      await page.waitForSelector(".live.live");
    });
  });

  test("a page that is shown again is not live before something newer has come, and says of when it is", async () => {
    const docs = recorded("trouble");
    const known = { ...docs };
    await on(docs, {}, async (page, server) => {
      await page.waitForSelector(".live.live");
      await page.waitForSelector("table");
      await show(page, false);
      await streams(server, 0);
      await page.clock.setFixedTime(new Date("2026-11-29T08:00:00Z"));
      for (const name of Object.keys(docs)) docs[name] = null; // nothing comes
      await show(page, true);
      await streams(server, 1);
      await page.waitForSelector(".live.connecting");
      server.link({ state: "stale", sn: "127.0.41.1:30304", since: "2026-11-29T08:00:00Z", problem: "no SN has answered for 6 s", remedy: "see whether the SNs run" });
      await page.getByText("This page is stale: what it shows is what was known on 2026-11-28 at 01:36:28 UTC. No SN has answered for 6 s.").waitFor();
      server.set("nodes", { error: "no SN answers", remedy: "" });
      server.link({ state: "live", sn: "127.0.41.1:30304", since: "2026-11-29T08:00:09Z", problem: "", remedy: "" });
      await page.waitForSelector(".live.connecting");
      assert.equal((await rows(page, "Nodes")).length, 7); // what was known stays
      server.set("swarm", known.swarm);
      await page.waitForSelector(".live.live");
      server.set("nodes", { error: "list nodes: not allowed", remedy: "" }); // that is an answer
      await page.getByText("list nodes: not allowed").waitFor();
    });
  });

  test("contract: after an error the curves are whole again", async () => {
    const docs = recorded("training");
    await on(docs, { stage: "training", hash: `contract/${contract}` }, async (page, server) => {
      await page.getByText("1 to 25 of 35").waitFor();
      const had = docs[`history/${contract}`];
      server.set(`history/${contract}`, { error: "no leader has a history", remedy: "wait" });
      await page.getByText("no leader has a history").waitFor();
      docs[`history/${contract}`] = had; // a stream begins with all of it
      server.push(`history/${contract}`, { ...had, after: 30, rounds: had.rounds.slice(-5) });
      await page.getByText("1 to 25 of 35").waitFor();
    });
  });

  test("contract: where a rule hides each peer's curves, the merged model's are there, and why no others", async () => {
    const docs = recorded("training");
    const h = docs[`history/${contract}`];
    docs[`history/${contract}`] = { ...h, hidden: "the contract's rule curves shows them to others", rounds: h.rounds.map((r) => ({ ...r, peers: r.peers.map((p) => ({ ...p, loss: null, metric: null })) })) };
    await on(docs, { stage: "training", hash: `contract/${contract}` }, async (page) => {
      await page.getByText("The contract's rule curves shows them to others.").waitFor();
      const curves = page.locator("section", { has: page.getByRole("heading", { name: "Curves" }) });
      assert.ok((await curves.innerText()).includes("merged model"));
      assert.ok(!(await curves.innerText()).includes(h.rounds[0].peers[0].node));
    });
  });

  test("without a history: what the leader remembers, and why it is no more", async () => {
    const docs = recorded("trouble");
    docs[`history/${contract}`] = { error: "the SN is too old to have a history", remedy: "install a newer swarmd on the SNs" };
    await on(docs, { hash: `contract/${contract}` }, async (page) => {
      await page.getByText("the SN is too old to have a history").waitFor();
      await page.getByText("install a newer swarmd on the SNs").waitFor();
      const last = docs[`contract/${contract}`].rounds.at(-1);
      assert.ok((await rows(page, "Rounds"))[0].startsWith(`${last.round} `));
      await page.getByText("What programs have reported of past rounds is not known.").first().waitFor();
      await page.getByText("How long past rounds took is not known, their exchange apart.").waitFor();
      const third = await page.locator("[aria-label^=Rounds] tbody tr").first().locator("td").nth(1).innerText();
      assert.equal(third, "–"); // the exchange is not all of a round
      for (const row of await rows(page, "What each peer contributed")) assert.ok(row.endsWith("– –"), row); // no weight, no share
      await page.getByRole("link", { name: "Models" }).click();
      await page.getByRole("button", { name: `verify round ${last.round}` }).waitFor();
    });
  });

  test("models: each committed one, and its proof in front of the reader", async () => {
    const docs = recorded("trouble");
    await on(docs, { hash: `models/${contract}`, expect: /500/ }, async (page, server) => {
      const past = docs[`history/${contract}`];
      const bare = (round) => ({ ...past.rounds.at(-1), round, loss: null, metric: round === 62 ? 0.5 : null });
      await page.getByRole("button", { name: "verify round 61" }).waitFor(); // what the stream begins with has come
      server.push(`history/${contract}`, { ...past, after: 61, rounds: [bare(62), bare(63)] });
      await page.getByText("not reported yet").first().waitFor();
      const [newest, before] = await rows(page, "Models");
      assert.ok(newest.startsWith("63 ") && newest.includes("not reported yet") && before.startsWith("62 ") && before.includes("not reported yet 0.5000"), `${newest}\n${before}`);
      await page.getByRole("button", { name: "verify round 61" }).click();
      await page.getByRole("button", { name: "Verify now" }).click();
      await page.getByText("The ledger proves this model: 3 nodes received and signed it").waitFor();
      assert.equal(await page.getByText("proven", { exact: true }).count(), 0);
      await page.getByRole("button", { name: "close round 61" }).click();
      const held = docs[`models/${contract}`].models.map((m) => m.round);
      for (const row of await rows(page, "Models")) {
        assert.equal(row.includes("no node"), !held.includes(Number(row.split(" ")[0])), row);
      }
      server.refuse(500);
      await page.getByRole("button", { name: "verify round 60" }).click();
      await page.getByRole("button", { name: "Verify now" }).click();
      await page.getByText("swarmctl answers with status 500").waitFor();
    });
  });

  test("models: each round's record and method, and the rules that were in force", async () => {
    const docs = recorded("trouble");
    const past = docs[`history/${contract}`];
    past.rounds = past.rounds.map((r) => ({ ...r, record: r.round + 13, method: r.round > 60 ? "median" : "mean", metric_name: r.round > 60 ? "F1 score" : "accuracy" }));
    docs[`proof/${contract}/61`] = { ...proof("trouble", 61), rules: { record: 3, at: null, by: "spiffe://a.example/swarm/swci/ann", run: 1, rules: null }, rules_text: "min peers 2" };
    await on(docs, { hash: `models/${contract}` }, async (page) => {
      await page.getByRole("columnheader", { name: "F1 score" }).waitFor(); // as the newest round that says so has it
      const shown = await rows(page, "Models");
      assert.ok(shown[0].startsWith("61 ") && shown[0].includes(" 74 median "), shown[0]);
      assert.ok(shown[1].includes(" 73 mean "), shown[1]);
      await page.getByRole("button", { name: "verify round 61" }).click();
      await page.getByRole("button", { name: "Verify now" }).click();
      await page.getByText("min peers 2 (record 3, by spiffe://a.example/swarm/swci/ann)").waitFor();
    });
  });

  test("models: one that nodes hold is fetched whole or not at all", async () => {
    const docs = recorded("trouble");
    const held = docs[`models/${contract}`];
    held.export = true;
    await on(docs, { hash: `models/${contract}`, expect: /502|ERR_CONTENT_LENGTH|ERR_INCOMPLETE|net::/ }, async (page, server) => {
      const m = held.models[0];
      await page.getByRole("button", { name: /^fetch round/ }).first().waitFor();
      assert.equal(await page.getByRole("button", { name: /^fetch round/ }).count(), (await rows(page, "Models")).filter((row) => !row.includes("no node")).length);
      const fetchIt = () => page.getByRole("button", { name: `fetch round ${m.round}`, exact: true }).click();
      let asked;
      const head = { "Content-Type": "application/octet-stream", "Content-Length": "8", "Content-Disposition": `attachment; filename=study-round-${m.round}.safetensors` };
      server.models((response, of) => ((asked = of), response.writeHead(200, head).end("01234567")));
      const [file] = await Promise.all([page.waitForEvent("download"), fetchIt()]);
      assert.equal(file.suggestedFilename(), `study-round-${m.round}.safetensors`);
      assert.equal(readFileSync(await file.path(), "utf8"), "01234567");
      assert.deepEqual(asked, { contract, round: String(m.round), digest: m.digest });
      await page.getByText("was handed to the browser").waitFor();
      let saved = 0;
      page.on("download", () => saved++);
      server.models((response) => response.writeHead(502, { "Content-Type": "application/json" }).end(JSON.stringify({ error: "no node that runs holds it", remedy: "swarmctl list models" })));
      await fetchIt();
      await page.getByText("no node that runs holds it").waitFor();
      server.models((response) => (response.writeHead(200, head).write("0123"), setTimeout(() => response.destroy(), 50)));
      await fetchIt();
      await page.getByText("has not come whole, and nothing was saved").waitFor();
      assert.equal(saved, 0);
    });
    held.export = false;
    await on(docs, { hash: `models/${contract}` }, async (page) => {
      await page.getByText("lets no model leave the swarm").waitFor();
      assert.equal(await page.getByRole("button", { name: /^fetch round/ }).count(), 0);
    });
  });

  test("an earlier run: its curves, rounds and proofs by the chooser, and what remains where its history is gone", async () => {
    const docs = recorded("trouble");
    const past = docs[`history/${contract}`];
    docs[`contract/${contract}`].run = 3;
    docs[`history/${contract}`] = { ...past, run: 3, earlier: [2], rounds: past.rounds.slice(0, 5) };
    docs[`history/${contract}/2`] = { ...past, run: 2, rounds: past.rounds.slice(0, 40).map((r) => ({ ...r, metric_name: "AUC" })) };
    docs[`proof/${contract}/2/40`] = { ...proof("trouble", 40), run: 2 };
    docs[`proof/${contract}/1/7`] = { ...proof("trouble", 7), run: 1 };
    docs[`history/${contract}/1`] = { error: "the SNs keep no history of run 1", remedy: "the ledger has the rounds: swarmctl get ledger", gone: true };
    await on(docs, { hash: `contract/${contract}` }, async (page) => {
      const runs = page.getByRole("navigation", { name: `runs of ${contract}` }).getByRole("link");
      await runs.first().waitFor();
      assert.deepEqual(await runs.allInnerTexts(), ["run 3 (now)", "run 2"]); // run 1 may be another contract's
      await runs.nth(1).focus();
      await page.keyboard.press("Enter");
      await page.waitForSelector(".plot canvas");
      await page.waitForFunction(() => document.activeElement?.id === "main"); // as with each link
      assert.equal(await runs.nth(1).getAttribute("aria-current"), "page");
      await page.getByRole("heading", { name: "AUC" }).waitFor();
      assert.ok((await rows(page, "Rounds"))[0].startsWith("40 "));
      assert.equal(await page.getByText("Rules and terms").count(), 0);
      await page.getByRole("link", { name: "Models" }).click();
      assert.ok((await page.getByText("Models of run 2").waitFor(), (await rows(page, "Models"))[0].startsWith("40 ")));
      await page.getByRole("button", { name: "verify round 40" }).click();
      await page.getByRole("button", { name: "Verify now" }).click();
      await page.getByText("The ledger proves this model: 3 nodes").waitFor();
      await page.evaluate((to) => (location.hash = to), `/models/${contract}/1`);
      await page.getByText("the SNs keep no history of run 1").waitFor();
      await page.getByText("swarmctl get ledger").waitFor();
      await page.getByLabel("round", { exact: true }).fill("7");
      await page.getByRole("button", { name: "Look it up" }).click();
      await page.getByRole("button", { name: "Verify now" }).click();
      await page.getByText("The ledger proves this model: 3 nodes").waitFor();
      assert.deepEqual(await runs.allInnerTexts(), ["run 3 (now)", "run 2", "run 1"]);
      await page.getByRole("link", { name: "run 3 (now)" }).first().click();
      await page.getByRole("columnheader", { name: "held by" }).waitFor();
    });
  });

  test("an earlier run that did not come is no run that is gone, and is asked for again", async () => {
    const docs = recorded("trouble");
    const past = docs[`history/${contract}`];
    docs[`contract/${contract}`].run = 2;
    docs[`history/${contract}/1`] = { error: "no SN answers", remedy: "start one" };
    // It asks by itself, too, when the contact turns live, and takes the button away that is about to be pressed.
    const again = async (page, wanted) => {
      for (let tries = 0; tries < 10; tries++) {
        await page.locator('button[aria-disabled="false"]', { hasText: "Ask again" }).click({ timeout: 1000 }).catch(() => {});
        if (await wanted.waitFor({ timeout: 1000 }).then(() => true, () => false)) return;
      }
      assert.fail("it is not asked again");
    };
    await on(docs, { hash: `contract/${contract}/1`, expect: /401/ }, async (page, server) => {
      await page.getByText("Run 1 can't be shown now: no SN answers").waitFor();
      assert.equal(await page.getByText("What the ledger proves").count(), 0);
      docs[`history/${contract}/1`] = { error: "no quorum", remedy: "start one" };
      await again(page, page.getByText("Run 1 can't be shown now: no quorum"));
      server.refuse(401);
      await again(page, page.getByText("Run 1 can't be shown now: this browser was not let in"));
      server.refuse(0);
      docs[`history/${contract}/1`] = { ...past, run: 1 };
      await again(page, page.locator(".plot canvas").first());
    });
    docs[`history/${contract}/1`] = { error: "no SN answers", remedy: "start one" };
    await on(docs, { hash: `contract/${contract}/1` }, async (page, server) => {
      const link = { sn: "127.0.41.1:30304", since: new Date().toISOString(), problem: "no SN answers", remedy: "start one" };
      await page.getByText("Run 1 can't be shown now").waitFor();
      server.link({ ...link, state: "stale" });
      await page.getByText("This page is stale").waitFor();
      docs[`history/${contract}/1`] = { ...past, run: 1 };
      server.link({ ...link, state: "live", problem: "", remedy: "" });
      await page.waitForSelector(".plot canvas");
    });
  });

  test("models: nothing of the run before a reset stays", async () => {
    const docs = recorded("trouble");
    const past = docs[`history/${contract}`];
    docs[`models/${contract}`].export = true;
    await on(docs, { hash: `models/${contract}`, expect: /502/ }, async (page, server) => {
      const fetchIt = page.getByRole("button", { name: /^fetch round/ }).first();
      let answer;
      server.models((response) => (answer = () => response.writeHead(502, { "Content-Type": "application/json" }).end(JSON.stringify({ error: "no node that runs holds it" }))));
      await fetchIt.focus();
      await page.keyboard.press("Enter");
      await page.getByText("Fetching the model").waitFor();
      assert.match(await page.evaluate(() => document.activeElement.ariaLabel), /^fetch round/); // the focus stays
      while (!answer) await page.waitForTimeout(25); // until the request has come
      const first = answer;
      await page.keyboard.press("Enter");
      assert.equal(answer, first);
      answer();
      await page.getByText("no node that runs holds it").waitFor();
      const { round } = past.rounds.at(-1);
      await page.getByRole("button", { name: `verify round ${round}` }).click();
      server.set(`contract/${contract}`, { ...docs[`contract/${contract}`], run: 2 });
      server.set(`history/${contract}`, { ...past, run: 2, earlier: [1] });
      await page.getByText("run 2 (now)").waitFor();
      await page.getByRole("button", { name: `verify round ${round}` }).waitFor();
      assert.equal(await page.getByText("no node that runs holds it").count(), 0);
    });
  });

  test("models: rounds that come move nothing that somebody works in", async () => {
    await on(recorded("done"), { expect: /./, hash: `models/${contract}` }, async (page, server) => {
      const past = (await page.waitForSelector("table"), recorded("done")[`history/${contract}`]);
      const last = past.rounds.at(-1).round;
      const come = (n) => server.push(`history/${contract}`, { ...past, after: last, rounds: Array.from({ length: n }, (_, i) => ({ ...past.rounds.at(-1), round: last + 1 + i })) });
      const top = async () => Number((await rows(page, "Models"))[0].split(" ")[0]);
      const listed = (n) => page.getByText(`${n + 1} to ${n + 25} of`).waitFor();
      await page.getByRole("button", { name: `verify round ${last - 3}` }).click();
      await page.mouse.move(0, 0);
      come(40);
      await listed(40);
      assert.equal(await top(), last);
      await page.getByRole("button", { name: "Verify now" }).waitFor();
      await page.getByRole("button", { name: "newest" }).click();
      assert.equal(await top(), last + 40);
      await page.getByRole("button", { name: `verify round ${last + 38}` }).hover(); // a row is not taken away under the pointer
      come(42);
      await listed(2);
      assert.equal(await top(), last + 40);
      await page.mouse.move(0, 0);
      await listed(0);
      assert.equal(await top(), last + 42);
      await page.getByRole("button", { name: "older" }).click();
      await page.mouse.move(0, 0);
      come(50);
      await listed(33);
      assert.equal(await top(), last + 17);
    });
  });

  test("contract: rounds that come move no row under the pointer, nor one that has the focus", async () => {
    await on(recorded("done"), { stage: "done", hash: `contract/${contract}` }, async (page, server) => {
      await page.getByText("1 to 25 of 242").waitFor();
      const past = recorded("done")[`history/${contract}`];
      const last = past.rounds.at(-1).round;
      const come = (n) => server.push(`history/${contract}`, { ...past, after: last, rounds: Array.from({ length: n }, (_, i) => ({ ...past.rounds.at(-1), round: last + 1 + i })) });
      const listed = (n) => page.getByText(`${n + 1} to ${n + 25} of`).waitFor();
      const digest = page.locator("[aria-label^=Rounds] tbody button.digest").first();
      await digest.hover();
      come(2);
      await listed(2);
      await digest.focus();
      await page.mouse.move(0, 0); // the pointer goes, the focus stays
      come(4);
      await listed(4);
      assert.ok((await rows(page, "Rounds"))[0].startsWith(`${last} `));
      await page.getByRole("link", { name: "Models" }).focus();
      await listed(0);
    });
  });

  test("models: what was not checked is not called proven", async () => {
    const docs = recorded("trouble");
    const whole = proof("trouble", 61);
    docs[`proof/${contract}/61`] = { ...whole, state: "unchecked", participants: whole.participants.map((p) => ({ ...p, signed: false })) };
    docs[`proof/${contract}/60`] = { ...proof("trouble", 60), digest: "0".repeat(64) };
    await on(docs, { hash: `models/${contract}` }, async (page) => {
      for (const [round, words] of [[61, "start swarmctl dashboard with --bundle"], [60, "The ledger has another model of this round"]]) {
        await page.getByRole("button", { name: `verify round ${round}` }).click();
        await page.getByRole("button", { name: "Verify now" }).click();
        await page.getByText(words).waitFor();
        assert.equal(await page.getByText("verified", { exact: true }).count(), 0);
        await page.getByRole("button", { name: `close round ${round}` }).click();
      }
    });
  });

  test("approvals: read-only without --actions, signed with it", async () => {
    await on(withJob("trouble"), { hash: "tasks" }, async (page) => {
      await page.getByText("swarmctl approve task train on swop-1", { exact: true }).first().waitFor();
      assert.equal(await page.getByRole("button", { name: "Approve…" }).count(), 0);
    });
    const docs = withJob("trouble");
    docs.swarm.actions = true;
    await on(docs, { hash: "tasks" }, async (page) => { // whoever asked for a task has no say
      await page.getByRole("button", { name: "Refuse…" }).waitFor();
      assert.equal(await page.getByRole("button", { name: "Approve…" }).count(), 0);
    });
    docs.approvals.approvals[0].by = "spiffe://swarm.learning/swarm/swci/ada";
    await on(docs, { hash: "tasks" }, async (page, server) => {
      await page.getByRole("button", { name: "Refuse…" }).click();
      await page.getByLabel("because").fill("ü".repeat(200));
      assert.ok(await page.getByRole("button", { name: "Sign the refusal" }).isDisabled());
      await page.getByLabel("because").fill("the image is unknown here");
      server.answer({ error: "refuse task train on swop-1: nothing waits", remedy: "swarmctl list approvals" });
      await page.getByRole("button", { name: "Sign the refusal" }).click();
      await page.getByText("nothing waits").waitFor();
      server.answer({ said: "approved on swop-1" });
      docs["body/train"] = { name: "train", digest: "0".repeat(64), lines: ["Name: train", "Command: other.sh"] };
      await page.getByRole("button", { name: "Approve…" }).click();
      await page.getByText("The task has changed: this is digest 000000000000").waitFor();
      assert.ok(await page.getByRole("button", { name: "Sign the approval" }).isDisabled());
      await page.getByRole("button", { name: "not now" }).click();
      docs["body/train"] = { name: "train", digest: docs.approvals.approvals[0].digest, lines: ["Name: train", "Command: run.sh"] };
      await page.getByRole("button", { name: "Approve…" }).click();
      await page.getByText("Command: run.sh").waitFor();
      await page.getByRole("button", { name: "Sign the approval" }).click();
      await page.getByText("approved on swop-1").waitFor();
      server.set("approvals", { ...docs.approvals, approvals: [] }); // what was signed waits no more
      await page.getByText("No host waits for a word.").waitFor();
      assert.equal(await page.getByText("approved on swop-1").count(), 1);
      const part = { task: "train", host: "swop-1", digest: docs["body/train"].digest };
      assert.deepEqual(server.acts, [{ do: "refuse", reason: "the image is unknown here", ...part }, { do: "approve", reason: "", ...part }]);
    });
  });

  test("a task is approved by keyboard: the focus goes to what is to be read, then to what came of it", async () => {
    const docs = withJob("trouble");
    docs.swarm.actions = true;
    docs.approvals.approvals[0].by = "spiffe://swarm.learning/swarm/swci/ada";
    docs["body/train"] = { name: "train", digest: docs.approvals.approvals[0].digest, lines: ["Name: train", "Command: run.sh"] };
    const waiting = docs.approvals;
    const focused = (page, words) => page.waitForFunction((words) => document.activeElement !== document.body && (document.activeElement.ariaLabel ?? document.activeElement.textContent).includes(words), words, { timeout: 5000 });
    await on(docs, { hash: "tasks" }, async (page, server) => {
      await page.getByRole("button", { name: "Approve…" }).focus();
      await page.keyboard.press("Enter");
      await focused(page, "what train has hosts do");
      server.answer({ error: "approve task train on swop-1: no quorum", remedy: "wait" });
      const sign = async () => {
        await page.keyboard.press("Tab"); // the digest
        await page.keyboard.press("Tab");
        await focused(page, "Sign the approval");
        await page.keyboard.press("Enter");
      };
      await sign();
      await focused(page, "no quorum");
      assert.equal(await page.locator(".card [role=alert]").count(), 1);
      await page.getByRole("button", { name: "Approve…" }).focus();
      await page.keyboard.press("Enter");
      await focused(page, "what train has hosts do");
      server.answer({ said: "approved on swop-1" });
      await sign();
      await focused(page, "approved on swop-1");
      await page.getByText("You have signed; swop-1 has yet to take it.").waitFor();
      assert.equal(await page.getByRole("button", { name: /Approve…|Refuse…/ }).count(), 0);
      const refused = { approvals: [{ ...waiting.approvals[0], text: "that word does not count here" }] };
      server.set("approvals", refused);
      await page.getByRole("button", { name: "Refuse…" }).focus();
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => document.activeElement.tagName === "INPUT");
      await page.keyboard.type("the image is unknown");
      server.set("approvals", { error: "list approvals: timed out", remedy: "wait" });
      await page.getByText("list approvals: timed out").waitFor();
      assert.equal(await page.getByLabel("because").inputValue(), "the image is unknown"); // what was typed stays
      server.set("approvals", refused);
      await page.getByText("list approvals: timed out").waitFor({ state: "detached" });
      await page.getByRole("button", { name: "not now" }).press("Enter");
      await focused(page, "Refuse…");
      server.set("approvals", { approvals: [] });
      await focused(page, "swop-1 waits no more for a word about task train.");
    });
  });

  test("job and events", async () => {
    await on(withJob("trouble"), { hash: "job/mnist-ddp" }, async (page) => {
      const members = await rows(page, "Members");
      assert.equal(members.length, 3);
      assert.match(members[2], /worker\/2 .*exited 1 OutOfMemoryError/);
    });
    const docs = recorded("done");
    await on(docs, { stage: "done", hash: "events" }, async (page, server) => {
      assert.equal((await rows(page, "Events")).length, docs.events.events.length);
      assert.deepEqual(await page.locator(".lead .source").allInnerTexts(), ["recorded", "reported"]); // nobody has checked a signature
      assert.match((await rows(page, "Events"))[0], /recorded record \d+$/);
      server.set("events", { ...docs.events, signatures: true });
      await page.locator(".lead .source.verified").waitFor();
      await page.getByLabel("with").fill("sl-1 banned");
      const found = await rows(page, "Events");
      assert.equal(found.length, 1);
      assert.match(found[0], /laptop was stolen/);
      await page.getByLabel("with").fill("nothing of the kind");
      await page.getByText("No event is like that.").waitFor();
      server.set("events", { ...docs.events, events: [{ ...docs.events.events[0], what: "set rules", kind: "contract", about: contract, text: `set rules contract ${contract}, run 1` }] });
      await page.getByLabel("with").fill("");
      await page.getByText("1 event", { exact: true }).waitFor();
      assert.match((await rows(page, "Events"))[0], new RegExp(`^\\S+( \\S+)* ago set rules contract ${contract} run 1 `)); // not twice
    });
  });

  test("events: what SNs have noticed is told from what the ledger has", async () => {
    const docs = noticed("trouble");
    const all = docs.events.events;
    await on(docs, { hash: "events" }, async (page, server) => {
      assert.equal((await rows(page, "Events")).length, all.length);
      await page.getByLabel("of").selectOption("reported");
      const found = await rows(page, "Events");
      assert.equal(found.length, 3);
      assert.equal(await page.locator(".bar-tools .paper").textContent(), ": those seen by SNs");
      assert.match(found[0], /^now leads node sn-1 term 3, after sn-0 – reported by sn-1$/);
      assert.match(found[1], /attempt failed contract \S+ attempt 1 of round 61: sl-2 is lost – reported by sn-0$/);
      assert.match(found[2], /fell silent node sl-2 /);
      await page.getByLabel("of").selectOption("recorded");
      assert.equal((await rows(page, "Events")).length, all.length - 3);
      await page.getByLabel("of").selectOption("node");
      await page.getByLabel("with").fill("silent");
      assert.equal((await rows(page, "Events")).length, 1);
      await page.getByRole("link", { name: "sl-2" }).click();
      await page.getByRole("heading", { name: /sl-2/, level: 1 }).waitFor();
      await page.evaluate(() => (location.hash = "#/events"));
      server.set("events", { ...docs.events, reported_older: 7, unreported: "this SN keeps no events" });
      await page.getByText("What SNs have noticed can't be asked for: this SN keeps no events").waitFor();
      await page.getByText("7 older events that SNs have noticed left out").waitFor();
    });
  });

  test("node: identity, ban, connections, log", async () => {
    await on(recorded("trouble"), { hash: "node/sl-1", expect: /404/ }, async (page) => {
      await page.getByText("Its node key is banned: “laptop was stolen”").waitFor();
      await page.getByRole("button", { name: "Show the last lines" }).click();
      await page.getByText("swarmctl get logs sl-1").waitFor();
    });
    await on(recorded("trouble"), { hash: "node/sl-0" }, async (page) => {
      assert.equal(await page.getByText("session opened at sl-0").count(), 0);
      await page.getByRole("button", { name: "Show the last lines" }).click();
      await page.getByText("session opened at sl-0").waitFor();
      await page.getByText("It has a connection with 1 of 1 node that it needs.").waitFor();
    });
    await on(recorded("trouble"), { hash: "node/nobody" }, async (page) => {
      await page.getByText("No node of the name nobody is registered.").waitFor();
    });
  });

  test("node: what its machine has and uses, what it does not report, and why it says nothing", async () => {
    const docs = recorded("trouble");
    const machine = (page) => page.getByRole("region", { name: "Machine" });
    await on(docs, { hash: "node/sl-0" }, async (page, server) => {
      const says = async (...lines) => {
        for (const line of lines) await machine(page).getByText(line, { exact: true }).waitFor();
      };
      await says("reported", "16", "3.50, 2.25, 0.50 (means of 1, 5 and 15 min)", "16.0 GiB of 64.0 GiB used, 48.0 GiB available", "300.0 GiB of 400.0 GiB used, 100.0 GiB free", "35.0 GiB of 140.0 GiB used", "opened by it 4, by others 0", "150.0 MiB", "for 1 h 2 min, and taken 62 s of processors");
      await machine(page).getByRole("img", { name: "25 % of its memory is used" }).first().waitFor();
      await machine(page).getByText("1, busy: not reported, memory: not reported").waitFor();
      const none = Object.fromEntries(Object.keys(figures("trouble")).map((key) => [key, null]));
      server.set("node/sl-0", { node: "sl-0", role: "sl", version: "x", figures: { ...none, taken_at: moment.trouble, gpus: [] } });
      await says("none that it sees");
      assert.equal(await machine(page).getByText("not reported").count(), 8);
      server.set("node/sl-0", { error: "get node sl-0: sl-0 hands out no figures, which go where its log goes: its log goes to nobody", remedy: "ask its owner" });
      await says("Get node sl-0: sl-0 hands out no figures, which go where its log goes: its log goes to nobody.", "ask its owner");
    });
    await on(docs, { hash: "node/sl-1" }, async (page, server) => {
      await page.getByText("Nobody is there who could say what its machine has and uses.").waitFor();
      assert.ok(!server.watched().includes("node/sl-1"));
    });
  });

  /** Waits until a number of logs is followed. */
  const follows = async (server, n) => {
    for (let i = 0; server.followed().length !== n; i++) {
      assert.ok(i < 200, `${server.followed().length} logs are followed, not ${n}`);
      await new Promise((done) => setTimeout(done, 25));
    }
  };
  const line = (text, from = "") => ({ host: "h", from, text });

  test("a node's log is followed until the button or the page ends that; its newest line is in sight, and old ones go", async () => {
    await on(recorded("trouble"), { hash: "node/sl-0", expect: /503/ }, async (page, server) => {
      const button = page.getByRole("button", { name: "Follow", exact: true });
      await button.click();
      await page.getByText("Asking the host…").waitFor();
      await page.waitForFunction(() => document.activeElement.textContent === "Stop following");
      await follows(server, 1);
      assert.deepEqual(server.followed(), [{ of: "sl-0", host: "", member: "" }]);
      server.print([line("first line"), line("second line")]);
      const log = page.locator(".log");
      await log.getByText("second line").waitFor();
      await page.getByText("Lines are shown as they come.").waitFor();
      for (let i = 0; i < 6; i++) server.print(Array.from({ length: 100 }, (_, n) => line(`line ${i * 100 + n}`)));
      await page.waitForFunction(() => document.querySelector(".log").textContent.endsWith("line 599\n"));
      const shown = (await log.textContent()).trimEnd().split("\n");
      assert.deepEqual([shown.length, shown[0]], [500, "line 100"]);
      const below = () => log.evaluate((e) => Math.round(e.scrollHeight - e.scrollTop - e.clientHeight));
      assert.ok((await below()) < 8, "the newest line is out of sight");
      await log.evaluate((e) => (e.scrollTop = 100)); // whoever reads older lines is left there
      await page.waitForTimeout(100);
      const selected = (select) => log.evaluate((e, select) => {
        const range = document.createRange();
        range.selectNodeContents([...e.childNodes].find((n) => n.data === "line 110\n"));
        if (select) getSelection().addRange(range);
        return [getSelection().toString().trim(), Math.round(range.getBoundingClientRect().top)];
      }, select);
      const before = await selected(true);
      assert.equal(before[0], "line 110");
      server.print([line("line 600")]); // and line 100 goes
      await page.waitForFunction(() => document.querySelector(".log").textContent.endsWith("line 600\n"));
      assert.deepEqual(await selected(false), before); // what is read stays where it is, and what was selected is
      await page.getByRole("button", { name: "Stop following" }).click();
      await follows(server, 0);
      await page.getByText("You have stopped following it").waitFor();
      assert.ok((await log.textContent()).endsWith("line 600\n"));
      await page.getByRole("button", { name: "Close" }).click();
      await button.click();
      await follows(server, 1);
      await page.evaluate(() => (location.hash = "#/events"));
      await follows(server, 0);
      server.noLog({ error: "4 logs are followed already", remedy: "stop following one, on this page or another" });
      await page.evaluate(() => (location.hash = "#/node/sl-0"));
      await button.click();
      await page.getByText("4 logs are followed already").waitFor();
      await page.getByText("stop following one, on this page or another").waitFor();
    });
  });

  test("a job's member is followed, one at a time; a host that refuses has its words", async () => {
    await on(withJob("trouble"), { hash: "job/mnist-ddp" }, async (page, server) => {
      await page.getByRole("button", { name: "Follow the log of worker/0" }).click();
      await follows(server, 1);
      assert.deepEqual(server.followed(), [{ of: "mnist-ddp", host: "swop-1", member: "worker/0" }]);
      server.print([line("loss 0.5", "worker/0")]);
      await page.locator(".log").getByText("loss 0.5").waitFor();
      await page.getByRole("button", { name: "Follow the log of worker/2" }).click();
      await page.getByRole("heading", { name: "Log of worker/2 on swop-1" }).waitFor();
      while (server.followed()[0]?.member !== "worker/2") await new Promise((done) => setTimeout(done, 25));
      await follows(server, 1);
      assert.equal(await page.locator(".log").count(), 0);
      server.endLog({ error: "get logs mnist-ddp: swop-1 hands out no log: logs of this host do not go to spiffe://a.example/swarm/swci", remedy: "ask its owner" });
      await page.getByText("swop-1 hands out no log: logs of this host do not go to").waitFor();
      await page.getByText("ask its owner").waitFor();
      await follows(server, 0);
    });
  });

  test("a member's lines stay when it is placed anew, until they are closed", async () => {
    const docs = withJob("trouble");
    const of = docs["job/mnist-ddp"];
    await on(docs, { hash: "job/mnist-ddp" }, async (page, server) => {
      await page.getByRole("button", { name: "Follow the log of worker/0" }).click();
      await follows(server, 1);
      server.print([line("Traceback: out of memory", "worker/0")]);
      const traceback = page.locator(".log").getByText("Traceback: out of memory");
      await traceback.waitFor();
      server.set("job/mnist-ddp", { ...of, members: of.members.map((m, i) => (i ? m : { ...m, host: "hospital-b" })) });
      await page.getByText("worker/0 was placed anew, on hospital-b: these are its lines on swop-1.").waitFor();
      await traceback.waitFor();
      server.set("job/mnist-ddp", { error: "get job status: timed out", remedy: "" });
      await page.getByText("get job status: timed out").waitFor();
      await traceback.waitFor();
      await page.getByRole("button", { name: "Stop following" }).click();
      await page.getByRole("button", { name: "Close" }).click();
      assert.equal(await page.locator(".log").count(), 0);
    });
  });

  test("a log of which nothing comes, not even that it goes on, is no longer called followed", async () => {
    await on(recorded("trouble"), { hash: "node/sl-0" }, async (page, server) => {
      await page.evaluate(() => {
        const wait = setTimeout;
        window.setTimeout = (call, ms) => wait(call, ms === 25_000 ? 300 : ms); // that long
      });
      await page.getByRole("button", { name: "Follow", exact: true }).click();
      await follows(server, 1);
      server.print([line("first line")]);
      await page.getByText("No more lines come.").waitFor();
      await page.getByText("swarmctl dashboard has sent nothing for 25 s.").waitFor();
      await page.locator(".log").getByText("first line").waitFor();
      await follows(server, 0);
    });
  });

  test("an empty swarm, documents that are refused, and documents that do not come", async () => {
    await on(empty(), { stage: "waiting" }, async (page) => {
      await page.getByText("There is no contract yet: the first program that starts makes one.").waitFor();
      for (const [to, words] of [["contracts", "There is no contract yet."], ["tasks", "No host waits for a word."], ["events", "Nothing has happened yet."]]) {
        await page.goto(`${page.url().split("#")[0]}#/${to}`);
        await page.getByText(words).waitFor();
      }
    });
    const docs = recorded("trouble");
    docs.tasks = { error: "list tasks: not allowed to read tasks", remedy: "ask an operator for the right" };
    docs.jobs = null; // it does not come
    await on(docs, { hash: "tasks" }, async (page) => {
      await page.getByText("list tasks: not allowed to read tasks").waitFor();
      await page.getByText("ask an operator for the right").waitFor();
      await page.getByText("Asking the swarm for jobs…").waitFor();
    });
  });

  test("a stale page says so, and goes on by itself", async () => {
    await on(recorded("trouble"), { expect: /./ }, async (page, server) => {
      await page.waitForSelector(".live.live");
      server.link({ state: "stale", sn: "127.0.41.1:30304", since: moment.trouble, problem: "no SN answers", remedy: "start one of sn-1, sn-2, sn-3" });
      await page.getByText("This page is stale: what it shows is what was known at 01:36:28 UTC. No SN answers.").waitFor();
      await page.getByText("start one of sn-1, sn-2, sn-3").waitFor();
      server.link({ state: "live", sn: "127.0.41.2:30304", since: moment.trouble, problem: "", remedy: "" });
      await page.getByText("127.0.41.2:30304").first().waitFor();
      await page.getByText("This page is stale").waitFor({ state: "detached" });
      server.refuse(401);
      server.drop();
      await page.getByText("open the address that swarmctl dashboard printed last").waitFor();
      assert.equal(await page.locator(".banner code").count(), 0); // that is no command
      server.refuse(0);
      await page.getByText("This page is stale").waitFor({ state: "detached", timeout: 10_000 });
    });
  });

  test("an end that was meant is no fault, and stays when nobody answers any more", async () => {
    await on(recorded("trouble"), { expect: /./ }, async (page, server) => {
      await page.waitForSelector("table");
      server.link({ state: "ended", sn: "", since: moment.trouble, problem: "the training run has ended", remedy: "see /tmp/out/report.html" });
      await page.getByText("This page has ended: what it shows is what was known at 01:36:28 UTC. The training run has ended.").waitFor();
      await server.close();
      await page.waitForTimeout(2_500); // it has tried again
      await page.getByText("see /tmp/out/report.html").waitFor();
      assert.equal(await page.getByText("does not answer").count(), 0);
      assert.equal((await rows(page, "Nodes")).length, 7);
    });
  });

  test("swarmctl that has ended is said, and found again on its port", async () => {
    await on(recorded("trouble"), { expect: /./ }, async (page, server) => {
      await page.waitForSelector(".live.live");
      await server.close();
      await page.getByText("swarmctl dashboard does not answer.").waitFor({ timeout: 10_000 });
      assert.equal((await rows(page, "Nodes")).length, 7); // what was known stays
      const again = await serve(recorded("done"), { at: moment.done, port: Number(new URL(server.url).port) });
      try {
        await page.getByText("This page is stale").waitFor({ state: "detached", timeout: 10_000 });
        await page.getByText("No contract trains.").waitFor();
      } finally {
        await again.close();
      }
    });
  });

  test("100 nodes and 10,000 rounds", async () => {
    const docs = large(100, 10_000);
    await on(docs, { stage: "training" }, async (page) => {
      await page.waitForSelector(".swarm");
      assert.equal(await page.locator(".swarm a").count(), 100);
      assert.equal(await drawn(page, "models"), 0);
      await page.locator('.swarm a[href="#/node/hospital-18"]').focus();
      const others = docs.nodes.nodes.filter((n) => n.role === "sl" && n.live && n.name !== "hospital-18").length;
      await page.waitForFunction(() => document.querySelector(".swarm .link.unknown"));
      assert.deepEqual([await drawn(page, "models"), await drawn(page, "unknown")], [others - 1, 1]);
      assert.equal((await rows(page, "Nodes")).length, 25);
      await page.getByRole("button", { name: "show all 100" }).click();
      assert.equal((await rows(page, "Nodes")).length, 100);
    });
    await on(docs, { stage: "training", hash: `contract/${contract}` }, async (page, server) => {
      const drawn = () => page.waitForFunction(() => document.querySelectorAll(".plot canvas").length === 3 && !document.querySelector("[data-drawing]"));
      const ink = () => page.locator(".plot canvas").first().evaluate((canvas) => { // of peers without a colour
        const all = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        const red = parseInt(getComputedStyle(canvas).getPropertyValue("--faint").trim().slice(1, 3), 16);
        let n = 0;
        for (let i = 0; i < all.length; i += 4) if (all[i + 3] > 60 && Math.abs(all[i] - red) < 8) n++;
        return n;
      });
      await drawn();
      const curves = await ink();
      assert.ok(curves > 1000, `the curves of all peers have ${curves} pixels`);
      // A round that comes is drawn in the time of a few frames, also on a slow machine.
      const last = docs[`history/${contract}`].rounds.at(-1);
      const ms = await page.evaluate(() => (window.slowest = 0));
      await page.evaluate(() => new PerformanceObserver((l) => l.getEntries().forEach((e) => (window.slowest = Math.max(window.slowest, e.duration)))).observe({ type: "longtask" }));
      server.push(`history/${contract}`, { ...docs[`history/${contract}`], after: last.round, rounds: [{ ...last, round: last.round + 1 }], thinned: 0 });
      await page.getByText("of 590").first().waitFor();
      await page.getByLabel("in colour").selectOption("hospital-30");
      await page.locator(".readout", { hasText: "hospital-30" }).first().waitFor();
      await page.getByRole("button", { name: "hospital-30: no colour any more" }).click();
      await page.locator(".readout", { hasText: "hospital-30" }).first().waitFor({ state: "detached" });
      await drawn();
      const again = await ink();
      assert.ok(Math.abs(again - curves) < 0.1 * curves, `the curves had ${curves} pixels, and have ${again}`);
      const slowest = await page.evaluate(() => window.slowest);
      assert.ok(slowest < 1000, `a round that came held the page up for ${slowest} ms, from ${ms}`);
    });
    assert.equal(history(["a"], 10, 100).rounds.length, 10);
  });

  const every = [["swarm", ""], ["contracts", "contracts"], ["contract", `contract/${contract}`], ["models", `models/${contract}`], ["an earlier run", `contract/${contract}/1`], ["its models", `models/${contract}/1`], ["tasks", "tasks"], ["job", "job/mnist-ddp"], ["node", "node/sl-1"], ["node with figures", "node/sl-0"], ["events", "events"], ["no page", "nothing"]];

  const withEarlier = (docs) => {
    docs[`contract/${contract}`].run = 2;
    docs[`history/${contract}/1`] = docs[`history/${contract}`];
  };

  test("axe finds nothing serious on any page, light and dark; no page is wider than a phone", async () => {
    const docs = withJob("trouble");
    docs.swarm.actions = true;
    docs[`models/${contract}`].export = true;
    withEarlier(docs);
    const server = await serve(docs, { at: moment.trouble });
    try {
      for (const dark of [false, true]) {
        const { page, complaints, close } = await open(browser, server.url, { at: moment.trouble, dark, width: dark ? 1280 : 390, height: 844 });
        for (const [name, hash] of every) {
          await page.goto(`${server.url}#/${hash}`);
          await page.waitForTimeout(150);
          const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
          assert.ok(wide <= 0, `${name} is ${wide} px too wide`);
          await page.evaluate(axe.source);
          const found = await page.evaluate((only) => window.axe.run(document, { resultTypes: ["violations"], ...(only && { runOnly: only }) }), dark ? ["color-contrast"] : null);
          const bad = found.violations.filter((v) => ["serious", "critical"].includes(v.impact)).map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html).join(" ")}`);
          assert.deepEqual(bad, [], `${name}, ${dark ? "dark" : "light, phone"}`);
        }
        assert.deepEqual(complaints.filter((c) => !/404/.test(c)), []); // a node without a log
        await close();
      }
    } finally {
      await server.close();
    }
  });

  test("all pages by keyboard, and print", async () => {
    await on(recorded("trouble"), {}, async (page) => {
      await page.keyboard.press("Tab");
      assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
      await page.keyboard.press("Enter");
      assert.equal(await page.evaluate(() => document.activeElement.id), "main");
      await page.getByRole("link", { name: "Contracts" }).focus();
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "Contracts" }).waitFor();
      await page.waitForFunction(() => document.activeElement.id === "main");
      assert.equal(await page.title(), "Contracts – swarm");
      await page.getByRole("button", { name: "UTC times" }).click();
      await page.getByText("2026-11-28 01:35:46 UTC").first().waitFor();
      await page.emulateMedia({ media: "print" });
      assert.equal(await page.locator(".top").isVisible(), false);
    });
  });

  test("on paper moments are exact, nothing is there to press, cut lists say so, and the foot says whose word it is and of when", async () => {
    const docs = withJob("trouble");
    docs.swarm.actions = true;
    await on(docs, { hash: `contract/${contract}`, expect: /404/ }, async (page) => {
      await page.waitForSelector(".plot canvas");
      await page.emulateMedia({ media: "print" });
      await page.getByText("1 to 25 of 61 are on paper; the screen has all").waitFor();
      const { swarm_id, identity } = docs.swarm;
      assert.equal((await text(page, "footer"))[0], `Swarm ${swarm_id}, as SN 127.0.41.1:30304 tells ${identity.spiffe_id}. Printed 2026-11-28 01:36:28 UTC.`);
      for (const [name, hash] of every) {
        await page.goto(`${page.url().split("#")[0]}#/${hash}`);
        await page.waitForTimeout(100);
        const seen = await page.evaluate(() => ({
          press: [...document.querySelectorAll("button:not(.digest), input, select, label")].filter((x) => x.checkVisibility()).map((x) => x.outerHTML),
          times: [...document.querySelectorAll("time")].filter((x) => x.checkVisibility()).map((x) => x.innerText.replace(/\s+/g, " ")).filter((x) => !/^((since|until) )?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/.test(x)),
        }));
        assert.deepEqual(seen, { press: [], times: [] }, name);
      }
    });
  });

  test("on paper all is light, and as wide as the paper", async () => {
    const docs = withJob("trouble");
    withEarlier(docs);
    await on(docs, { hash: `contract/${contract}`, dark: true, width: 718 }, async (page) => {
      const darkest = () => page.locator(".plot canvas").last().evaluate((canvas) => {
        const all = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        let least = 255;
        for (let i = 0; i < all.length; i += 4) if (all[i + 3] === 255) least = Math.min(least, Math.max(all[i], all[i + 1], all[i + 2]));
        return least;
      });
      await page.waitForSelector(".plot canvas");
      const ink = async (isDark, where) => {
        for (let i = 0; (await darkest()) < 60 !== isDark; i++) {
          assert.ok(i < 100, `${isDark ? "light" : "dark"} ink ${where}`);
          await page.waitForTimeout(20);
        }
      };
      await ink(false, "on a dark page");
      await page.emulateMedia({ colorScheme: "light" });
      await ink(true, "on a light page");
      await page.emulateMedia({ colorScheme: "dark" });
      await ink(false, "on a page that is dark again");
      await page.emulateMedia({ media: "print" });
      await ink(true, "on paper");
      assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)");
      for (const [name, hash] of every) {
        await page.goto(`${page.url().split("#")[0]}#/${hash}`);
        await page.waitForTimeout(100);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wide <= 0, `${name} is ${wide} px too wide`);
      }
    });
  });
});
