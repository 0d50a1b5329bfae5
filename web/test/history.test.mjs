// Histories that grow: what is kept between two rounds is the same as what all rounds make.
import assert from "node:assert/strict";
import path from "node:path";
import { test } from "node:test";
import { runnerImport } from "vite";

const source = async (name) => (await runnerImport(path.join(import.meta.dirname, "../src", name), { configFile: false, logLevel: "error" })).module;
const { Columns, merged } = await source("history.ts");
const { Tally } = await source("shares.ts");
const { placed, points } = await source("crowd.ts");

let seed = 7;
const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;

/** A round of so many peers, some of which are away. */
function round(n, peers = 5) {
  const of = Array.from({ length: peers }, (_, i) => ({ node: `n-${i}`, loss: random() < 0.1 ? null : random(), metric: random(), weight: random() < 0.1 ? null : Math.ceil(100 * random()), contributed: random() > 0.2, sent: 10, received: random() < 0.5 ? null : 20 }));
  return { round: n, failed: n % 97 === 0 ? [{ attempt: 1 }] : [], loss: random(), metric: random(), took: random(), peers: of.filter(() => random() > 0.05) };
}

const rounds = (from, to, peers) => Array.from({ length: to - from + 1 }, (_, i) => round(from + i, peers));

/** Histories one after another: rounds are added and become known, old ones are thinned, another run begins. */
function* told() {
  let h = { run: 1, thinned: 0, rounds: rounds(1, 600) };
  yield h;
  for (let n = 601; n < 2100; n += 1 + Math.floor(12 * random())) {
    const last = h.rounds.at(-1).round;
    const after = last - Math.floor(3 * random());
    yield (h = merged(h, { run: 1, after, thinned: 0, rounds: rounds(after + 1, n) }));
  }
  yield { run: 2, thinned: 0, rounds: rounds(1, 3, 2) };
}

test("history: rounds that come are merged by their numbers", () => {
  const had = { run: 1, thinned: 0, rounds: rounds(1, 20).filter((r) => r.round !== 18) };
  const came = { run: 1, after: 15, thinned: 3, rounds: [round(21), round(16), round(18)] };
  const both = merged(had, came);
  assert.deepEqual(both.rounds.map((r) => r.round), Array.from({ length: 21 }, (_, i) => i + 1));
  for (const r of came.rounds) assert.equal(both.rounds[r.round - 1], r);
  assert.equal(both.rounds[14], had.rounds[14]);
  assert.equal(both.thinned, 0);
  assert.deepEqual(merged(had, { ...came, rounds: [] }).rounds, had.rounds);
  assert.equal(merged(undefined, came), undefined);
  assert.equal(merged(had, { ...came, run: 2 }), undefined);
  assert.equal(merged(had, { ...came, after: null }).rounds, came.rounds);
});

test("history: rounds are thinned where there are many, those with failed attempts never", () => {
  const all = rounds(1, 1200);
  const h = merged({ run: 1, thinned: 0, rounds: all }, { run: 1, after: 1200, rounds: [round(1201)] });
  assert.equal(h.thinned, 1201 - h.rounds.length);
  assert.ok(h.rounds.length < 920);
  const has = new Set(h.rounds);
  for (const r of all) if (r.failed.length > 0 || r.round > 601) assert.ok(has.has(r), `round ${r.round}`);
});

test("columns that grow are those of all rounds, and those that are drawn stay", () => {
  const grown = new Columns((r) => r.took);
  let drawn; // what a plot has, until it is given more
  for (const h of told()) {
    grown.take(h.rounds);
    const whole = new Columns((r) => r.took);
    whole.take(h.rounds);
    assert.deepEqual([grown.rounds, grown.took, grown.main], [whole.rounds, whole.took, whole.main]);
    assert.deepEqual([...grown.peers].sort(), [...whole.peers].sort());
    assert.deepEqual(grown.main.loss, h.rounds.map((r) => r.loss));
    assert.deepEqual(grown.peers.get("n-1").loss, h.rounds.map((r) => r.peers.find((p) => p.node === "n-1")?.loss ?? null));
    if (drawn) assert.deepEqual(drawn.values.slice(0, drawn.was.length), drawn.was);
    drawn = { values: grown.peers.get("n-1").loss, was: grown.peers.get("n-1").loss.slice() };
  }
});

/** Who contributed, summed up in the plainest way. */
function sums(all) {
  const rows = {};
  let weights = 0;
  for (const r of all) {
    const gave = r.peers.filter((p) => p.contributed);
    weights += gave.reduce((sum, p) => sum + (p.weight ?? 1), 0) || 1;
    for (const p of r.peers) {
      const row = (rows[p.node] ??= { node: p.node, rounds: 0, weight: null, share: 0, sent: null, received: null });
      row.sent = p.sent === null ? row.sent : row.sent + p.sent;
      row.received = p.received === null ? row.received : row.received + p.received;
    }
    for (const p of gave) Object.assign(rows[p.node], { rounds: rows[p.node].rounds + 1, weight: p.weight, share: rows[p.node].share + (p.weight ?? 1) });
  }
  return Object.values(rows).map((r) => ({ ...r, share: r.share / weights })).sort((a, b) => (a.node < b.node ? -1 : 1));
}

test("contributions that grow are those of all rounds", () => {
  const grown = new Tally();
  for (const h of told()) {
    const { rows, largest } = grown.take(h.rounds);
    assert.deepEqual({ rows, largest }, new Tally().take(h.rounds));
    const plain = sums(h.rounds);
    assert.deepEqual(rows.map(({ node, rounds, weight, sent, received }) => ({ node, rounds, weight, sent, received })), plain.map(({ share, ...r }) => r));
    for (const [i, r] of rows.entries()) assert.ok(Math.abs(r.share - plain[i].share) < 1e-9);
  }
});

test("contributions: the height in each round is the peer's share, and a round without it is a gap", () => {
  for (const [n, width] of [[1, 1], [250, 1], [801, 2], [1700, 4]]) {
    const all = rounds(1, n);
    const { rows, largest } = new Tally().take(all);
    for (const row of rows) {
      const height = Array(n).fill(0);
      for (const [, from, y, to] of row.path.matchAll(/M(\d+) 0V(-?[\d.e-]+)H(\d+)V0Z/g)) height.fill(-Number(y), Number(from), Number(to));
      for (let from = 0; from < n; from += width) {
        const of = all.slice(from, from + width);
        const share = of.map((r) => {
          const whole = r.peers.reduce((sum, p) => sum + (p.contributed ? (p.weight ?? 1) : 0), 0);
          const p = r.peers.find((p) => p.node === row.node);
          return p?.contributed ? (p.weight ?? 1) / whole : 0;
        }).reduce((sum, s) => sum + s, 0) / of.length;
        assert.ok(Math.abs(height[from] - share) <= largest / 64 + 0.005 * share, `${row.node} in round ${from + 1} of ${n}: ${height[from]}, not ${share}`);
        assert.equal(height[from] > 0, share > 0);
      }
    }
  }
});

test("curves: columns of pixels keep what goes in, what comes out, the least and the most", () => {
  for (const [n, wide] of [[0, 100], [1, 100], [50, 400], [1200, 300], [1200, 10]]) {
    const x = Array.from({ length: n }, (_, i) => i + 1);
    const y = x.map(() => (random() < 0.1 ? null : random()));
    const at = (round) => (wide * (round - 1)) / n;
    const got = points(x, y, 0, n, at, (v) => v);
    const pairs = got.flatMap((v, i) => (i % 2 === 0 ? [[v, got[i + 1]]] : []));
    const real = x.flatMap((round, i) => (y[i] === null ? [] : [[at(round), y[i]]]));
    const known = new Set(real.map(String));
    for (const [i, p] of pairs.entries()) assert.ok(known.has(String(p)) && (i === 0 || p[0] > pairs[i - 1][0]), `${p}`);
    if (n < wide) assert.deepEqual(pairs, real);
    for (let column = 0; column < wide; column++) {
      const [some, all] = [pairs, real].map((of) => of.filter(([x]) => Math.floor(x) === column));
      assert.ok(some.length <= 4);
      if (all.length === 0) continue;
      assert.deepEqual([some[0], some.at(-1)], [all[0], all.at(-1)]);
      for (const of of [Math.min, Math.max]) assert.equal(of(...some.map((p) => p[1])), of(...all.map((p) => p[1])));
    }
  }
});

test("curves: a picture is where its values are", () => {
  const of = { width: 400, height: 200, x: [0, 100], y: [0, 2], log: false };
  assert.deepEqual(placed(of, of), [0, 0, 400, 200]);
  assert.deepEqual(placed(of, { ...of, x: [0, 200] }), [0, 0, 200, 200]);
  assert.deepEqual(placed(of, { ...of, y: [0, 4] }), [0, 100, 400, 100]);
  assert.deepEqual(placed({ ...of, y: [1, 10], log: true }, { ...of, y: [1, 100], log: true }).map(Math.round), [0, 100, 400, 100]);
});
