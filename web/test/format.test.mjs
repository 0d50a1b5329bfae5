// What people read: numbers, sizes, times; and where nodes stand on the map.
import assert from "node:assert/strict";
import path from "node:path";
import { test } from "node:test";
import { runnerImport } from "vite";

const source = async (name) => (await runnerImport(path.join(import.meta.dirname, "../src", name), { configFile: false, logLevel: "error" })).module;

test("format", async () => {
  const { measure, names, relative, rough, size, span } = await source("format.ts");
  assert.deepEqual([0.25444, 12.345, 123.45, 12345, 0.00012, null].map(measure), ["0.2544", "12.35", "123.5", "12,345", "1.20e-4", "–"]);
  assert.deepEqual([0, 999, 1000, 25_600, 1_590_000, 2.5e9, null].map(size), ["0 bytes", "999 bytes", "1.00 kB", "25.6 kB", "1.59 MB", "2.50 GB", "–"]);
  assert.deepEqual([11, 1200, 20_000, 486].map(span), ["11 ms", "1.2 s", "20 s", "486 ms"]);
  assert.deepEqual([25e3, 125e3, 3600e3, 3 * 86400e3].map(rough), ["25 s", "2 min 5 s", "1 h", "3 days"]);
  assert.deepEqual([relative(1000, 26_000), relative(90_000_000, 0), relative(5, 10)], ["25 s ago", "in 25 h", "now"]);
  assert.equal(names(["a", "b", "c"], 2), "a, b and 1 more");
});

test("words: of a node's states alive alone is good, also beside one that this release does not know", async () => {
  const { nodeTone } = await source("words.ts");
  const tones = Object.fromEntries(["alive", "left", "dead", "no answer", "banned", "unknown", "isolated"].map((state) => [state, nodeTone({ state }, { healthy: true })]));
  assert.deepEqual(Object.values(tones).map((t) => t.tone), ["good", "off", "bad", "bad", "bad", "warn", "warn"]);
  assert.deepEqual([tones.alive.word, tones.isolated.word], ["healthy", "isolated"]);
});

test("layout: every node is on the map, apart from the others, at every width", async () => {
  const { layout } = await source("layout.ts");
  for (const n of [0, 1, 2, 3, 7, 26, 100]) {
    for (const width of [300, 358, 700, 1198]) {
      const nodes = Array.from({ length: n }, (_, i) => ({ name: `n-${i}`, role: i < 3 ? "sn" : i % 9 === 8 ? "swop" : "sl" }));
      const { places, height } = layout(nodes, width);
      assert.equal(places.length, n);
      for (const [i, a] of places.entries()) {
        assert.ok(a.x >= 0 && a.x <= width && a.y >= 0 && a.y <= height, `${n} nodes at ${width}: ${a.node.name} is off the map`);
        for (const b of places.slice(i + 1)) assert.ok(Math.hypot(a.x - b.x, a.y - b.y) > 7, `${n} nodes at ${width}: ${a.node.name} and ${b.node.name} are too close`);
      }
    }
  }
});

test("events come whole, however the stream is cut", async () => {
  const { readEvents } = await source("events.ts");
  const sent = new TextEncoder().encode('retry: 2000\n\nevent: link\ndata: {"sn":"ö"}\n\n: still here\n\nevent: doc\ndata: {"a":1}\n\n');
  for (const step of [1, 7, sent.length]) {
    const told = [];
    const body = new ReadableStream({
      start(to) {
        for (let i = 0; i < sent.length; i += step) to.enqueue(sent.slice(i, i + step));
        to.close();
      },
    });
    await readEvents(body, (event, data) => told.push([event, data]));
    assert.deepEqual(told, [["link", '{"sn":"ö"}'], ["", ""], ["doc", '{"a":1}']], `${step} bytes at a time`);
  }
});

test("the metric's name is the newest round's, or what the history or the status says", async () => {
  const { metricName } = await source("words.ts");
  const of = (rounds, name) => ({ rounds: rounds.map((metric_name) => ({ metric_name })), metric_name: name });
  assert.equal(metricName(of(["F1", "AUC", undefined], "R2")), "AUC");
  assert.equal(metricName(of(["F1", ""], "R2")), "metric"); // they differ
  assert.equal(metricName(of([undefined], "R2"), { metric_name: "F1" }), "R2");
  assert.equal(metricName(of([], ""), { metric_name: "F1" }), "F1");
  assert.equal(metricName(undefined), "metric");
});
