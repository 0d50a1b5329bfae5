// Documents for the tests of the page: of the swarm that record.sh has recorded, and of swarms of any size.
import { readFileSync } from "node:fs";
import path from "node:path";

const dir = path.join(import.meta.dirname, "fixtures");
const read = (...names) => JSON.parse(readFileSync(path.join(dir, ...names), "utf8"));

export const contract = "defaultbb.cqdb.sml.hpe";
const ends = { waiting: 0, training: 35, trouble: 61, done: 1e9 }; // last rounds of the stages

/** When a stage was recorded: the clock that the page has in tests. */
export const moment = { waiting: "2026-11-28T01:35:54Z", training: "2026-11-28T01:36:01Z", trouble: "2026-11-28T01:36:28Z", done: "2026-11-28T01:36:42Z" };

/** All documents at a stage of the recorded training: waiting, training, trouble or done. */
export function recorded(stage) {
  const get = (name) => read(stage, `${name}.json`);
  const nodes = get("nodes");
  const identity = get("identity");
  const history = read("history.json");
  history.rounds = history.rounds.filter((r) => r.round <= ends[stage]);
  const audit = get("audit");
  return {
    swarm: {
      swarm_id: audit.swarm_id, epoch: 1, sn: "127.0.41.1:30304", leader: nodes.nodes.find((n) => n.leader)?.name ?? "", version: nodes.nodes[0]?.version ?? "", own_version: "devel (unknown)", context: "",
      sns: nodes.nodes.filter((n) => n.role === "sn").map((n) => ({ name: n.name, address: `${n.host}:${n.api_port}`, live: n.live })),
      identity: { spiffe_id: identity.spiffe_id, not_before: identity.not_before, not_after: identity.not_after }, actions: false, rights: [],
    },
    nodes,
    health: get("health"),
    contracts: get("contracts"),
    [`contract/${contract}`]: get("contract"),
    [`explain/${contract}`]: get("explain"),
    [`info/${contract}`]: get("info"),
    [`models/${contract}`]: get("models"),
    [`history/${contract}`]: history,
    tasks: get("tasks"),
    assignments: get("assignments"),
    approvals: get("approvals"),
    jobs: get("jobs"),
    events: { events: audit.deeds.map(event).reverse(), records: audit.records, older: 0, reported_older: 0, unreported: "", good: audit.good, signatures: false, problem: "" },
    [`logs/${nodes.nodes[0]?.name}`]: { node: nodes.nodes[0]?.name, lines: read("log.json") },
    ...Object.fromEntries(nodes.nodes.filter((n) => n.live).map((n) => [`node/${n.name}`, { node: n.name, role: n.role, version: n.version, figures: figures(stage) }])),
  };
}

/** What the machine of a node has and uses. */
export function figures(stage) {
  return {
    taken_at: moment[stage], up_seconds: 3725, cpus: 16, load_1: 3.5, load_5: 2.25, load_15: 0.5, daemon_cpu_seconds: 61.5,
    memory_total_bytes: 64 * 2 ** 30, memory_available_bytes: 48 * 2 ** 30, daemon_memory_bytes: 150 * 2 ** 20,
    gpus: [
      { name: "NVIDIA H200", memory_total_bytes: 140 * 2 ** 30, memory_used_bytes: 35 * 2 ** 30, busy_percent: 97 },
      { name: "1", memory_total_bytes: null, memory_used_bytes: null, busy_percent: null },
    ],
    disk_total_bytes: 400 * 2 ** 30, disk_free_bytes: 100 * 2 ** 30, streams_opened_by_it: 4, streams_opened_by_others: 0, connected_peers: 2,
  };
}

function event(d) {
  const [kind, about] = d.task ? ["task", d.task] : d.contract ? ["contract", d.contract] : ["node", d.node];
  return { source: "recorded", record: d.record, sn: "", time: d.at, who: d.by, what: d.does, kind, about, text: d.reason || (d.hosts.length ? `on ${d.hosts.join(", ")}` : "") };
}

/** What SNs have noticed in the recorded training, among its events: newest first. */
export function noticed(stage) {
  const docs = recorded(stage);
  const at = (time, what, kind, about, text, sn) => ({ source: "reported", record: 0, sn, time, who: "", what, kind, about, text });
  docs.events.events = [
    at("2026-11-28T01:36:27.500Z", "leads", "node", "sn-1", "term 3, after sn-0", "sn-1"),
    at("2026-11-28T01:36:26.000Z", "attempt failed", "contract", contract, "attempt 1 of round 61: sl-2 is lost", "sn-0"),
    at("2026-11-28T01:36:25.000Z", "fell silent", "node", "sl-2", "role sl", "sn-0"),
    ...docs.events.events,
  ].sort((a, b) => (a.time < b.time ? 1 : -1));
  return docs;
}

/** What the ledger proves of a round of the recorded training. */
export function proof(stage, round) {
  const of = read("history.json").rounds.find((r) => r.round === round);
  const nodes = read(stage, "nodes.json").nodes;
  return {
    contract, run: 1, round, digest: of.digest, method: "mean", layout_digest: "", record: 13 + round, at: of.committed, head: "ff98".repeat(16), records: 262, state: "verified", problems: [],
    participants: of.peers.map((p) => {
      const n = nodes.find((n) => n.name === p.node);
      return { node: p.node, spiffe_id: n.spiffe_id, peer_id: n.peer_id, weight: p.weight, share: 1 / of.peers.length, signed: true, problem: "" };
    }),
  };
}

/** The recorded swarm before anything has happened in it. */
export function empty() {
  const docs = recorded("waiting");
  docs.nodes = { nodes: docs.nodes.nodes.filter((n) => n.role === "sn"), bans: [], no_quorum: null, candidates: [], invited: [] };
  docs.health = { healthy: true, nodes: docs.health.nodes.filter((n) => n.role === "sn"), pairs: [], linked: docs.health.linked.filter((g) => g.nodes.every((n) => n.startsWith("sn-"))) };
  docs.contracts = { contracts: [], no_quorum: null };
  docs.assignments = { assignments: [], left_out: 0 };
  docs.approvals = { approvals: [] };
  docs.tasks = { tasks: docs.tasks.tasks.filter((t) => t.name === "ROOTTASK") };
  docs.events = { events: [], records: 2, older: 0, reported_older: 0, unreported: "", good: true, signatures: false, problem: "" };
  return docs;
}

/** A job with members of every kind beside the recorded swarm. */
export function withJob(stage) {
  const docs = recorded(stage);
  const run = {
    job: "mnist-ddp", assignment: "4711", task: "mnist-ddp", digest: "ab".repeat(32), phase: "running", wants: "", verdict: "", end: "", reason: "", by: "spiffe://hospital-a.example/swarm/swci/ann", beside: "", members: 3, epoch: 1, restarts: 2,
    created: "2026-11-28T01:30:00Z", changed: "2026-11-28T01:33:00Z", ended: null,
  };
  const failed = { ...run, job: "tune", assignment: "4710", phase: "over", verdict: "failed", end: "member_failed", reason: "worker/1 on hospital-b ended with exit code 1", members: 2, ended: "2026-11-28T01:20:00Z" };
  docs.jobs = { runs: [failed, run], left_out: 2 };
  const member = (rank, host, state, text, exit_code = null) => ({ group: "worker", rank, host, state, ready: state === "ready", exit_code, text, cleaned: exit_code !== null, changed: "2026-11-28T01:33:00Z" });
  docs["job/mnist-ddp"] = { run, hosts: ["swop-1"], members: [member(0, "swop-1", "ready", ""), member(1, "swop-1", "asked", "waits for approval: swarmctl approve task mnist-ddp on swop-1"), member(2, "swop-1", "exited", "OutOfMemoryError: CUDA out of memory", 1)] };
  return docs;
}

/** A swarm of many nodes and rounds, whose history is thinned to so many points. */
export function large(nodes, rounds, points = 600) {
  const docs = recorded("training");
  const [sl, sn, swop] = ["sl", "sn", "swop"].map((role) => docs.nodes.nodes.find((n) => n.role === role));
  const make = (of, name, i) => ({ ...of, name, host: `10.1.${i >> 8}.${i & 255}`, peer_id: `${of.peer_id.slice(0, -6)}${String(i).padStart(6, "0")}`, leader: false, sentinel: false, needs: 9, reaches: 9 });
  const all = [];
  for (let i = 0; i < nodes; i++) {
    if (i < 5) all.push({ ...make(sn, `sn-${i + 1}`, i), leader: i === 0, sentinel: i === 0 });
    else if (i % 12 === 11) all.push(make(swop, `swop-${i}`, i));
    else all.push(make(sl, `hospital-${i}`, i));
  }
  Object.assign(all[17], { state: "dead", live: false });
  Object.assign(all[40], { banned: true, state: "banned", live: false });
  docs.nodes = { ...docs.nodes, nodes: all };
  const like = Object.fromEntries(docs.health.nodes.map((n) => [n.role, n]));
  docs.health = { healthy: false, nodes: all.map((n) => ({ ...like[n.role], name: n.name })), pairs: [{ a: all[20].name, b: all[30].name, state: "none", dials: "", detail: `${all[20].name} cannot open 10.1.0.30:30305 (${all[30].name}): connection refused, for 4 min`, remedy: `check on the host of ${all[20].name}: swarmctl identity check 10.1.0.30:30305` }, { a: all[18].name, b: all[19].name, state: "not known", dials: "", detail: `neither of ${all[18].name} and ${all[19].name} tells of it`, remedy: "" }] };
  const peers = all.filter((n) => n.role === "sl").map((n) => n.name);
  docs.health.linked = [peers, ...peers.map((name, i) => [name, all[i % 3].name]), ...all.slice(1, 5).map((n) => [all[0].name, n.name])].map((nodes) => ({ nodes }));
  const status = docs[`contract/${contract}`];
  const session = status.sessions[0];
  docs[`contract/${contract}`] = { ...status, sessions: peers.map((node, i) => ({ ...session, id: String(i), node, epochs_done: 20 + (i % 5), loss: 0.3 + i / 500 })) };
  docs[`history/${contract}`] = history(peers, rounds, points);
  return docs;
}

/** A history of so many rounds, thinned to so many points. */
export function history(peers, rounds, points) {
  const step = Math.max(1, Math.ceil(rounds / points));
  const out = [];
  let seed = 7;
  const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
  for (let n = 1; n <= rounds; n += step) {
    const base = 2.3 * Math.exp((-4 * n) / rounds) + 0.12;
    const of = peers.map((node) => ({ node, loss: base * (0.9 + 0.25 * random()), metric: 1 - base / 2.6 + 0.01 * random(), weight: 100, contributed: random() > 0.02, sent: 25600, received: 25600 }));
    out.push({
      round: n, attempt: 1, planned: new Date(Date.parse("2026-11-28T00:00:00Z") + n * 500).toISOString(), committed: new Date(Date.parse("2026-11-28T00:00:00Z") + n * 500 + 40).toISOString(),
      durations_ms: { waiting: 20 + 30 * random(), training: 300 + 60 * random(), exchange: 30 + 10 * random(), commit: 4 }, bytes_sent: 25600 * peers.length, bytes_received: 25600 * peers.length,
      weighted: true, failed: n % 997 === 1 && n > 1 ? [{ attempt: 1, blamed: peers[0], reason: `${peers[0]} sent no more of its part for 15 s`, at: null }] : [], peers: of, loss: base, metric: 1 - base / 2.6, digest: n.toString(16).padStart(64, "a"),
    });
  }
  return { contract, run: 1, rounds: out, thinned: rounds - out.length, recorded: [], reported: [] };
}
