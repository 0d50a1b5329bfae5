// The pages of a contract: its training, and its models.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { agree, facts, json, live, main, page, run, same, table, to, write } from "./stage.mjs";

const { count, many, measure, names, size, span } = write;

/** A figure of the merged model may not have come yet. */
const figure = (row, x, what) => (x === null ? assert.match(row[what], /^(–|not reported yet)$/) : assert.equal(row[what], measure(x), what));

const doing = (x) => {
  if (x.state === "ended") return x.end_reason || "ended";
  if (!x.live) return "node is dead";
  return x.state === "closed" ? "waits for the final model" : x.phase || x.state;
};

/** What the programs call their metric. */
const called = (history, status) => history.metric_name || status?.metric_name || "metric";

/** Wants each round that is shown to be that of the history, with its failed attempts. */
function rounds(rows, all, metric) {
  const newest = all.slice(-25).reverse();
  assert.deepEqual(rows.map((r) => r.round), newest.map((r) => count(r.round)));
  for (const [i, r] of newest.entries()) {
    const row = rows[i];
    const d = r.durations_ms;
    same([row], [{ took: d.waiting === null && d.training === null ? "–" : span(d.waiting + d.training + d.exchange + d.commit), sent: size(r.bytes_sent), model: r.digest, committed: r.committed, "merged models of": names(r.peers.filter((p) => p.contributed).map((p) => p.node), 3) }], `round ${r.round}`);
    const drawn = `training ${span(d.training)}, waiting ${span(d.waiting)}, exchange ${span(d.exchange)}, commit ${span(d.commit)}`;
    const failed = r.failed.map((f) => `attempt ${f.attempt} failed${f.blamed && ` by ${f.blamed}`}: ${f.reason}`);
    assert.equal(row["time by phase"], [drawn, ...failed].join(" ").replace(/\s+/g, " "), `round ${r.round}`);
    figure(row, r.loss, "loss");
    figure(row, r.metric, metric);
  }
}

/** Wants what each peer has contributed to be the sums of the history. */
async function contributions(history) {
  const of = (node) => history.rounds.map((r) => r.peers.find((p) => p.node === node)).filter(Boolean);
  const gave = (peers) => peers.filter((p) => p.contributed);
  const weight = (peers) => gave(peers).reduce((sum, p) => sum + p.weight, 0);
  const bytes = (peers, way) => (peers.some((p) => p[way] !== null) ? peers.reduce((sum, p) => sum + (p[way] ?? 0), 0) : null);
  const all = history.rounds.reduce((sum, r) => sum + weight(r.peers), 0);
  const nodes = [...new Set(history.rounds.flatMap((r) => r.peers.map((p) => p.node)))].sort();
  same(await table("What each peer contributed"), nodes.map((node) => ({
    peer: node, rounds: `${count(gave(of(node)).length)} of ${count(history.rounds.length)}`, weight: count(gave(of(node)).at(-1).weight),
    "share of weight": `${((100 * weight(of(node))) / all).toFixed(1)} %`, sent: size(bytes(of(node), "sent")), received: size(bytes(of(node), "received")),
  })), "contributions");
  return (node) => many(gave(of(node)).length, "round");
}

/** The page of a contract that stands still says what get contract status, get contract history and explain contract say. */
export async function training(name) {
  await to(`contract/${name}`, name);
  await agree(`contract ${name}`, async () => {
    const [status, history, explain] = await Promise.all([json("get", "contract", "status", name), json("get", "contract", "history", name), json("explain", "contract", name)]);
    const text = await main();
    assert.ok(text.includes(`${status.phase} round ${count(status.committed.round)} of run ${status.run}, committed`), text.slice(0, 200));
    for (const line of explain.explanation) assert.ok(text.includes(line.replace(/^to do: /, "To do: ").replace(/\s+/g, " ")), line);
    rounds(await table("Rounds"), history.rounds, called(history));
    const contributed = await contributions(history);
    const shown = await table("Peers");
    assert.equal(shown.length, status.sessions.length);
    for (const [i, x] of status.sessions.entries()) {
      same([shown[i]], [{
        peer: x.node, state: doing(x), round: count(x.round), loss: measure(x.loss), [called(history, status)]: measure(x.metric), weight: count(x.weight),
        "contributed to": contributed(x.node), isolation: x.isolation || "–",
      }], x.node);
    }
    const terms = await facts("Rules and terms");
    assert.equal(terms["least peers of a round"], `${status.rules.min_peers} (rule)`);
    assert.equal(terms["expected peers"], `${status.rules.expected_peers} (rule)`);
    assert.equal(terms["waits for the rest of a round"], `${status.rules.quorum_wait} s`);
    assert.equal(terms["repeats a stalled merge for"], `${status.rules.stall_grace} s`);
    assert.equal(terms["merge method"], status.method);
    assert.equal(terms["model's layout"], status.layout_digest);
    if (status.halt) assert.equal(terms.operator, `${status.halt.by} has paused the training, ${status.halt.at}`);
  });
}

/** The page shows the rounds alone of which an attempt has failed, with the reasons. */
export async function failures(name) {
  const history = await json("get", "contract", "history", name);
  const failed = history.rounds.filter((r) => r.failed.length > 0);
  const button = page.getByRole("button", { name: `with failed attempts (${count(failed.length)})` });
  await button.click();
  rounds(await table("Rounds"), failed, called(history));
  await button.click();
}

/** The models of a contract that stands still are those of list models, and the proof of one is what the ledger says. */
export async function models(name) {
  await to(`models/${name}`, name);
  const history = await json("get", "contract", "history", name);
  await agree(`models of ${name}`, async () => {
    const held = await json("list", "models", name);
    const rows = await table("Models");
    assert.ok((await main()).includes(`${many(history.rounds.length, "model")}, ${held.models.length} of them still held by nodes`));
    for (const [i, r] of history.rounds.slice(-25).reverse().entries()) {
      const m = held.models.find((m) => m.round === r.round);
      same([rows[i]], [{ round: count(r.round), digest: r.digest, "made by": names(r.peers.filter((p) => p.contributed).map((p) => p.node), 3), committed: r.committed, record: r.record ? count(r.record) : "–", method: r.method || "–", "held by": m ? `${names(m.holders, 3)}${held.export ? " fetch" : ""}` : "no node" }], `round ${r.round}`);
      if (m) assert.deepEqual([m.digest, m.committed], [r.digest, r.committed]);
    }
    for (const m of held.models) assert.ok(history.rounds.some((r) => r.round === m.round), `round ${m.round} is held and not listed`);
    assert.equal((await main()).includes("The contract lets no model leave the swarm"), !held.export);
  });
  await proof(name, history.rounds.at(-1));
}

/** Has the page verify a model, and compares that with what swarmctl says of a copy of the ledger. */
async function proof(name, round) {
  await page.getByRole("button", { name: `verify round ${count(round.round)}`, exact: true }).click();
  await page.getByRole("button", { name: "Verify now" }).click();
  await page.getByText("The ledger proves this model").waitFor();
  const copy = `${live.scratch}.ledger`;
  await run("get", "ledger", "--out", copy, "--force");
  const judged = await json("verify", "ledger", copy, "--bundle", live.bundle);
  assert.ok(judged.good);
  const { nodes } = await json("list", "nodes");
  const text = await main();
  const peers = round.peers.filter((p) => p.contributed);
  assert.ok(text.includes(`${many(peers.length, "node")} received and signed it`), text);
  const of = judged.contracts.find((c) => c.name === name);
  assert.deepEqual([of.last_round, of.model], [round.round, round.digest]);
  const whole = peers.reduce((sum, p) => sum + p.weight, 0);
  const byNode = (a, b) => a.node.localeCompare(b.node);
  same((await table("Who made the model")).sort(byNode), peers.map((p) => {
    const n = nodes.find((n) => n.name === p.node);
    return { node: p.node, signature: "good", weight: count(p.weight), share: `${((100 * p.weight) / whole).toFixed(1)} %`, "SPIFFE ID": n.spiffe_id, "node key": n.peer_id };
  }).sort(byNode), "proof");
  const told = await page.locator(".proof dl").last().innerText();
  const [, record, records] = told.match(/([\d,]+) of ([\d,]+)/).map((x) => Number(x.replaceAll(",", "")));
  const lines = (await readFile(copy, "utf8")).trim().split("\n");
  assert.ok(records <= judged.records, `${records} records, and ${judged.records} a moment later`);
  assert.ok(lines[record - 1].includes(round.digest), `record ${record} is not of the round: ${lines[record - 1].slice(0, 300)}`);
}
