// The pages of the swarm and of a node.
import assert from "node:assert/strict";
import { agree, facts, json, main, page, same, table, to, write } from "./stage.mjs";

const roles = { sn: "SN", sl: "SL", swop: "SWOP" };

const word = (n, h) => {
  if (n.banned) return "banned";
  if (n.state !== "alive") return n.state;
  return !h ? n.state : h.healthy || h.left_reason ? "healthy" : "unhealthy";
};

/** The page of the swarm says of each node what list nodes and get health say. */
export async function nodes() {
  const [{ nodes }, health] = await Promise.all([json("list", "nodes"), json("get", "health").catch(printed)]);
  const rows = await table("Nodes");
  const byName = (a, b) => a.node.localeCompare(b.node);
  const wanted = nodes.map((n) => ({
    node: n.name,
    role: [roles[n.role], n.leader && "leader", n.sentinel && "Sentinel"].filter(Boolean).join(", "),
    state: word(n, health.nodes.find((h) => h.name === n.name)),
    since: n.live_since,
    reaches: n.needs ? `${n.reaches} of ${n.needs}` : "–",
    address: `${n.host}:${n.api_port || n.fs_port}`.replace(/:0$/, ""),
    version: n.version,
  }));
  same(rows.sort(byName), wanted.sort(byName), "nodes");
}

/** get health fails where a node is unhealthy, and prints all the same. */
const printed = (e) => JSON.parse(e.stdout);

/** What is said about the swarm is what its SNs say. */
export async function about() {
  const [{ nodes }, identity] = await Promise.all([json("list", "nodes"), json("identity")]);
  const said = await facts("About this swarm");
  assert.equal(said["raft leader"], nodes.find((n) => n.leader).name);
  assert.equal(said["SNs"], nodes.filter((n) => n.role === "sn").map((n) => n.name + (n.live ? "" : " (does not answer)")).join(", "));
  assert.equal(said["asked in the name of"], identity.spiffe_id);
  assert.equal(said["what this page may do"], "read, approve and refuse tasks");
}

/** The page of a node says what list nodes and get health say. */
export async function node(name) {
  await to(`node/${name}`, name);
  await agree(`node ${name}`, async () => {
    const [{ nodes, bans }, health] = await Promise.all([json("list", "nodes"), json("get", "health").catch(printed)]);
    const n = nodes.find((n) => n.name === name);
    const h = health.nodes.find((h) => h.name === name);
    const identity = await facts("Identity");
    assert.equal(identity["SPIFFE ID"], n.spiffe_id);
    assert.equal(identity["node key (peer ID)"], n.peer_id);
    if (h?.svid_not_after) assert.ok(identity["certificate's life"].includes(h.svid_not_after), identity["certificate's life"]);
    assert.equal(identity["certificate from"], h?.source || undefined);
    const host = await facts("Host");
    const wanted = {
      role: roles[n.role], version: n.version, "runs programs as": n.role === "sl" ? n.runtime : undefined, "takes tasks of": n.taskrunner || undefined,
      "counts for": n.peers ? write.many(n.peers, "peer") : undefined, "CPUs for tasks": n.cpus ? String(n.cpus) : undefined,
      "memory for tasks": n.memory_bytes ? write.gibi(n.memory_bytes) : undefined, labels: n.labels.join(", ") || undefined,
      ports: [n.p2p_port && `SNs ${n.p2p_port}`, n.api_port && `API ${n.api_port}`, n.fs_port && `files ${n.fs_port}`].filter(Boolean).join(", ") || undefined,
      "open sessions": n.role === "sl" ? String(n.use.open_sessions) : undefined,
    };
    for (const [key, value] of Object.entries(wanted)) assert.equal(host[key], value, key);
    if (n.live) {
      const { figures } = await json("get", "node", name);
      const machine = await facts("Machine");
      assert.equal(machine.CPUs, String(figures.cpus));
      assert.ok(machine.memory.includes(` of ${write.binary(figures.memory_total_bytes)} `), machine.memory);
      assert.ok(machine.disk.includes(` of ${write.binary(figures.disk_total_bytes)} `), machine.disk);
    }
    const text = await main();
    assert.ok(text.includes(word(n, h)), `${name} is ${word(n, h)}`);
    const ban = bans.find((b) => b.peer_id === n.peer_id);
    if (ban) assert.ok(text.includes(`Its node key is banned: “${ban.reason}”, by ${ban.by}.`), text);
    if (n.role === "sl") {
      const rows = await table(`Contracts of ${name}`);
      for (const row of rows) {
        const { sessions } = await json("get", "contract", "status", row.contract);
        const x = sessions.find((s) => s.node === name);
        same([row], [{ contract: row.contract, program: !x ? "takes no part" : x.state === "ended" ? `ended: ${x.end_reason}` : x.phase || x.state, round: x ? write.count(x.round) : "–" }]);
      }
    }
  });
}

/** The list of contracts is that of list contracts. */
export async function contracts() {
  await to("contracts", "Contracts");
  await agree("contracts", async () => {
    const { contracts } = await json("list", "contracts");
    same(await table("Contracts"), contracts.map((c) => ({
      contract: c.name, phase: c.phase, run: String(c.run), "last round": write.count(c.round), programs: String(c.open_sessions), ended: String(c.ended_sessions),
      "least peers of a round": c.min_peers ? String(c.min_peers) : "–", made: c.created,
    })), "contracts");
  });
  assert.equal(await page.locator("main a", { hasText: "models" }).count(), (await table("Contracts")).length);
}
