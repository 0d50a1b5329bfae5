// Reports for the tests: what internal/swci/report has written, and others of any size.
import { readFileSync } from "node:fs";
import path from "node:path";

const read = (name) => readFileSync(path.join(import.meta.dirname, name), "utf8");

/** A report as swarmctl writes it. */
export function written(report) {
  const data = JSON.stringify(report).replace(/[<>&\u2028\u2029]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
  const words = { TITLE: "title", HEADLINE: "headline", DATA: data };
  return read("../../internal/swci/report/page/report.html").replace(/%REPORT_([A-Z]+)%/g, (_, what) => words[what]);
}

/** What internal/swci/report made of a small run. */
export const recorded = () => JSON.parse(read("fixtures/report.json"));

/** A run of more peers and rounds. */
export function grown(peers, rounds) {
  const r = recorded();
  const names = Array.from({ length: peers }, (_, i) => `sl-${i}`);
  const wave = (i, k) => 0.5 + 0.45 * (1 - Math.exp(-i / (rounds / 5))) + 0.01 * Math.sin(i * (k + 1.3));
  r.title = "digits: train.py";
  r.headline = `${peers} peers trained one model together in ${rounds} rounds.`;
  r.summary.rounds = rounds;
  r.summary.reason = "";
  r.summary.peers = names.map((name, k) => ({ ...r.summary.peers[0], name, weight: 100 + k, contributed: rounds, train_seconds: 60 + k, merge_seconds: 7 + (k % 5), local_accuracy: 0.6 + 0.002 * k, model_digest: "1b".repeat(32) }));
  const x = Array.from({ length: rounds }, (_, i) => i + 1);
  r.charts = [["accuracy", (v) => v], ["loss", (v) => 2 * (1.05 - v)]].map(([title, f]) => ({
    title, x, spread: true,
    curves: [...names.map((name, k) => ({ name, values: x.map((i) => f(wave(i, k) - 0.1 - 0.01 * k)) })), { name: "", values: x.map((i) => f(wave(i, 0))) }],
  }));
  r.rounds = x.map((i) => ({ round: i, attempt: 1, participants: names.filter((_, k) => (i + k) % 9), weights: names.map((_, k) => 100 + k).filter((_, k) => (i + k) % 9), seconds: 0.3 + (i % 7) / 10, digest: i.toString(16).padStart(2, "0").repeat(32).slice(0, 64), final: i === rounds, loss: 0.2, metric: 0.9, ...(i % 3 && { durations_ms: { waiting: 20 * (i % 9), training: 900 + 30 * (i % 11), exchange: 300 + 20 * (i % 5), commit: 4 } }) }));
  return r;
}

/** A run whose peers call themselves so. */
export function hostile(name) {
  const r = recorded();
  r.summary.peers[0].name = name;
  r.rounds[0].participants = [name];
  r.charts[0].curves[0].name = name;
  return { ...r, title: name };
}
