// Makes a history of what a contract's status said while it trained: node history.mjs POLLED.jsonl > history.json
//
// Rounds, times, members and digests are those of the swarm. Between the losses that were polled others are filled in, and one attempt is
// made to fail.
import { readFileSync } from "node:fs";

const polled = readFileSync(process.argv[2], "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));
const rounds = new Map();
const said = {}; // by node: what it reported, by round
for (const status of polled) {
  for (const r of status.rounds) rounds.set(r.round, r);
  for (const s of status.sessions) if (s.loss !== null) (said[s.node] ??= new Map()).set(s.round, s);
}

let seed = 7;
const about = (x, share) => x * (1 + share * (2 * ((seed = (seed * 16807) % 2147483647) / 2147483647) - 1));

function reported(node, round) {
  const all = [...(said[node] ?? [])].sort(([a], [b]) => a - b);
  if (all.length === 0) return { loss: null, metric: null };
  const [from, before] = all.filter(([r]) => r <= round).at(-1) ?? [0, { loss: 2.31, metric: 0.1 }];
  const [to, next] = all.find(([r]) => r >= round) ?? [from, before];
  const share = to > from ? (round - from) / (to - from) : 0;
  const between = (what, noise) => Number(about(before[what] + (next[what] - before[what]) * share, from === round ? 0 : noise).toFixed(6));
  return { loss: between("loss", 0.04), metric: Math.min(1, between("metric", 0.01)) };
}

let last;
const out = [...rounds.values()].sort((a, b) => a.round - b.round).map((r) => {
  const [planned, committed] = [Date.parse(r.planned), Date.parse(r.committed)];
  const gap = last ? planned - last : 900;
  const waiting = gap < 5000 ? Math.round(gap * 0.15) : gap - 70;
  const commit = Math.max(1, Math.round((committed - planned) * 0.35));
  last = committed;
  const peers = r.participants.map((node) => ({ node, ...reported(node, r.round), weight: 1, contributed: true, sent: Math.round(about(26000, 0.02)), received: Math.round(about(26000, 0.02)) }));
  const sum = (what) => peers.reduce((all, p) => all + p[what], 0);
  const mean = (what) => Number((sum(what) / peers.length).toFixed(6));
  return {
    round: r.round, attempt: r.attempt, planned: r.planned, committed: r.committed, durations_ms: { waiting, training: gap - waiting, exchange: committed - planned - commit, commit },
    bytes_sent: sum("sent"), bytes_received: sum("received"), failed: [], peers, loss: mean("loss"), metric: mean("metric"), digest: r.digest, weighted: true,
  };
});
const again = out[37];
Object.assign(again, { attempt: 2, failed: [{ attempt: 1, blamed: "sl-2", reason: "sl-2 sent no more of its part for 15 s", at: again.planned }] });
again.durations_ms.exchange += 420;
process.stdout.write(JSON.stringify({ contract: polled[0].name, run: 1, rounds: out, thinned: 0, recorded: ["round", "attempt", "digest", "peers.weight", "peers.contributed"], reported: ["loss", "metric", "planned", "committed", "durations_ms", "bytes_sent", "bytes_received"] }));
