// One node.
import { useState } from "preact/hooks";
import type { Contract, Logs, Node, NodeHealth, Pair } from "../documents.gen";
import { count, gibi, many, sentence, size } from "../format";
import { Machine } from "../machine";
import { Followed, Lines } from "../log";
import { Bar, Digest, Empty, Facts, Problem, Section, Shown, Source, State, Table, Time, useNow, Words } from "../parts";
import { path } from "../route";
import { ask, useDoc } from "../store";
import { marks, nodeTone, roleNames, roles } from "../words";
import { address } from "./swarm";

export function NodePage({ name }: { name: string }) {
  const nodes = useDoc("nodes");
  const health = useDoc("health");
  const contracts = useDoc("contracts");
  return (
    <>
      <header class="title">
        <p class="crumbs">
          <a href={path()}>Swarm</a>
        </p>
        <h1>{name}</h1>
      </header>
      <Shown doc={nodes} what={`node ${name}`}>
        {(list) => {
          const n = list.nodes.find((n) => n.name === name);
          if (!n) {
            return (
              <Empty title={`No node of the name ${name} is registered.`}>
                <p>
                  It was forgotten, or has never registered. <a href={path()}>All nodes</a>
                </p>
              </Empty>
            );
          }
          const h = health?.value?.nodes.find((x) => x.name === name);
          const pairs = health?.value?.pairs.filter((p) => p.a === name || p.b === name) ?? [];
          const ban = list.bans.find((b) => b.peer_id === n.peer_id);
          const { tone, word } = nodeTone(n, h);
          return (
            <>
              <p class="lead">
                <State tone={tone}>{word}</State> {[roleNames[n.role] ?? n.role, ...marks(n)].join(", ")}, {n.live ? "alive" : "silent"} <Time at={n.live_since} words="since" none="" />
              </p>
              {ban && (
                <Problem
                  error={`Its node key is banned${ban.reason ? `: “${ban.reason}”` : ""}, by ${ban.by}.`}
                  remedy={`to let it in again: swarmctl unban node ${n.name}`}
                />
              )}
              {h && !h.healthy && !h.left_reason && !ban && <Problem tone="warn" error={`It is not healthy: ${h.reason}`} />}
              {h?.warnings.map((w) => (
                <Problem key={w} tone="warn" error={w} />
              ))}
              <div class="halves">
                <Section title="Identity">
                  <Identity of={n} health={h} />
                </Section>
                <Section title="Host">
                  <Host of={n} />
                </Section>
              </div>
              <Section title="Machine" aside={<Source of="reported" />}>
                <Machine key={name} node={name} live={n.live} />
              </Section>
              <Section title="Connections">
                <Connections of={n} pairs={pairs} />
              </Section>
              {n.role === "sl" && (
                <Section title="Takes part in">
                  <Shown doc={contracts} what="contracts">
                    {(c) => <TakesPart node={name} contracts={c.contracts} />}
                  </Shown>
                </Section>
              )}
              <LastLines key={name} node={name} />
            </>
          );
        }}
      </Shown>
    </>
  );
}

function Identity({ of: n, health: h }: { of: Node; health: NodeHealth | undefined }) {
  const now = useNow();
  const from = Date.parse(h?.svid_not_before ?? "");
  const to = Date.parse(h?.svid_not_after ?? "");
  const share = (now - from) / (to - from);
  return (
    <>
      <Facts
        of={[
          ["SPIFFE ID", n.spiffe_id],
          ["node key (peer ID)", <Digest of={n.peer_id} />],
          ["certificate from", h?.source],
          [
            "certificate's life",
            h?.svid_not_after ? (
              <span class="life">
                <Bar share={share} label={`${Math.round(100 * Math.min(1, Math.max(0, share)))} % of the certificate's life is over`} />
                <span>
                  expires <Time at={h.svid_not_after} />
                </span>
              </span>
            ) : null,
          ],
          ["healthy without renewal", h?.until ? <Time at={h.until} words="until" /> : null],
          ["seen by a raft leader", h ? <Time at={h.leader_seen} none="never" /> : null],
        ]}
      />
    </>
  );
}

function Host({ of: n }: { of: Node }) {
  return (
    <Facts
      of={[
        ["address", address(n)],
        ["ports", [n.p2p_port && `SNs ${n.p2p_port}`, n.api_port && `API ${n.api_port}`, n.fs_port && `files ${n.fs_port}`].filter(Boolean).join(", ")],
        ["version", n.version],
        ["role", roles[n.role] ?? n.role],
        ["runs programs as", n.role === "sl" ? (n.runtime === "docker" ? "containers" : n.runtime) : null],
        ["ranks", n.ranks ? many(n.ranks, "rank") : null],
        ["takes tasks of", n.taskrunner],
        ["counts for", n.peers ? many(n.peers, "peer") : null],
        ["CPUs for tasks", n.cpus || null],
        ["memory for tasks", n.memory_bytes ? gibi(n.memory_bytes) : null],
        ["GPUs for tasks", n.role === "swop" ? n.gpus : n.gpus || null],
        ["disk free for jobs", n.disk_bytes ? `${gibi(n.disk_bytes)}, when it registered` : null],
        ["labels", n.labels.join(", ")],
        ["open sessions", n.role === "sl" ? count(n.use.open_sessions) : null],
        ["kept at the SNs", n.use.bytes ? size(n.use.bytes) : null],
        ["left", n.left_reason],
      ]}
    />
  );
}

function Connections({ of: n, pairs }: { of: Node; pairs: Pair[] }) {
  return (
    <>
      <p>
        {n.needs ? `It has a connection with ${n.reaches} of ${many(n.needs, "node")} that it needs.` : n.live ? "It needs no connection but the one by which it asks an SN." : "It is not there, and has none."}
        {n.reached_by_sn && n.reached_by_sn !== "yes" && ` The SN's dial to its port: ${n.reached_by_sn}.`}
        {n.reached_by_sn === "yes" && " The SN reaches its port."}
      </p>
      {pairs.length > 0 && (
        <ul class="waits">
          {pairs.map((p) => (
            <li key={p.a + p.b}>
              <State tone={p.state === "none" ? "bad" : p.state === "one way" ? "warn" : "off"}>{p.state === "none" ? "no link" : p.state}</State>
              <div>
                <b>{p.a === n.name ? p.b : p.a}</b>: {p.detail}
                {p.remedy && (
                  <p class="soft">
                    <Words text={p.remedy} />
                  </p>
                )}
              </div>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function TakesPart({ node, contracts }: { node: string; contracts: Contract[] }) {
  if (contracts.length === 0) return <Empty title="There is no contract yet." />;
  return (
    <Table
      caption={`Contracts of ${node}`}
      head={
        <>
          <th>contract</th>
          <th>program</th>
          <th class="n">round</th>
          <th class="n">epoch</th>
        </>
      }
    >
      {contracts.slice(0, 20).map((c) => (
        <Part key={c.name} node={node} contract={c.name} />
      ))}
    </Table>
  );
}

function Part({ node, contract }: { node: string; contract: string }) {
  const x = useDoc(`contract/${contract}`)?.value?.sessions.find((s) => s.node === node);
  return (
    <tr>
      <th scope="row">
        <a href={path("contract", contract)}>{contract}</a>
      </th>
      <td>{x ? (x.state === "ended" ? `ended: ${x.end_reason}` : x.phase || x.state) : <span class="soft">takes no part</span>}</td>
      <td class="n">{x ? count(x.round) : "–"}</td>
      <td class="n">{x ? (x.total_epochs ? `${x.epochs_done} of ${x.total_epochs}` : x.epochs_done) : "–"}</td>
    </tr>
  );
}

function LastLines({ node }: { node: string }) {
  const [logs, set] = useState<Awaited<ReturnType<typeof ask<Logs>>> | "asking" | undefined>();
  const [follows, setFollows] = useState(false);
  const read = async () => {
    set("asking");
    set(await ask<Logs>(`logs/${node}`));
  };
  const follow = (
    <button type="button" onClick={() => setFollows(true)}>
      Follow
    </button>
  );
  if (follows) {
    return (
      <Section title="Last log lines">
        <Followed of={node} label={`log of ${node}`} takesFocus done={() => setFollows(false)} />
      </Section>
    );
  }
  if (!logs || logs === "asking") {
    return (
      <Section title="Last log lines">
        <p>
          <button type="button" disabled={logs === "asking"} onClick={() => void read()}>
            {logs ? "Asking the host…" : "Show the last lines"}
          </button>{" "}
          {follow} <span class="soft">Its host decides who may read them, and logs that you did.</span>
        </p>
      </Section>
    );
  }
  return (
    <Section title="Last log lines">
      <p>
        <button type="button" onClick={() => void read()}>
          Ask again
        </button>{" "}
        {follow}
      </p>
      <Shown doc={logs?.error ? undefined : logs} what="its log" instead={
          logs?.error && (
            <Empty title={logs.missing ? "This page has no logs." : sentence(logs.error)}>
              <p>{logs.missing ? <>In a terminal, where its host lets them out: <code>swarmctl get logs {node}</code></> : <Words text={logs.remedy ?? ""} />}</p>
            </Empty>
          )
        }>
        {(l) =>
          l.lines.length === 0 ? (
            <Empty title="Its log is empty." />
          ) : (
            <Lines of={l.lines} label={`log of ${node}`} />
          )
        }
      </Shown>
    </Section>
  );
}
