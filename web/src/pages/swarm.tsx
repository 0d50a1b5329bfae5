// The swarm: nodes and links, and what it waits for.
import type { ComponentChildren } from "preact";
import type { Approval, Contract, Health, Node, Nodes } from "../documents.gen";
import { count, many, names } from "../format";
import { SwarmMap } from "../map";
import { Digest, Empty, Facts, Problem, Quorum, Section, Shown, State, Table, Time, useFirst, Words } from "../parts";
import { path } from "../route";
import { useDoc } from "../store";
import { marks, nodeTone, phaseTone, programs, roles } from "../words";

export function SwarmPage() {
  const swarm = useDoc("swarm");
  const nodes = useDoc("nodes");
  const health = useDoc("health");
  const contracts = useDoc("contracts");
  const approvals = useDoc("approvals");
  const list = nodes?.value;
  return (
    <>
      <header class="title">
        <h1>Swarm</h1>
        {list && <p class="lead">{inShort(list.nodes, health?.value)}</p>}
      </header>
      <Quorum of={list?.no_quorum} />
      <Section title="What it waits for">
        <Waits nodes={list} health={health?.value} contracts={contracts?.value?.contracts} approvals={approvals?.value?.approvals} />
      </Section>
      <Section title="Nodes and links">
        <Shown doc={nodes} what="its nodes">
          {(n) =>
            n.nodes.length === 0 ? (
              <Empty title="No node has registered yet.">
                <p>
                  An SN is there, as it has answered. Start others: <code>swarmd run-sn</code>, <code>swarmd run-sl</code>.
                </p>
              </Empty>
            ) : (
              <>
                <SwarmMap nodes={n.nodes} health={health?.value} />
                <NodeTable of={n} health={health?.value} />
              </>
            )
          }
        </Shown>
        {health?.error && <Problem tone="warn" error={`Health is not known: ${health.error}`} remedy={health.remedy} />}
      </Section>
      {list && <Strangers of={list} />}
      {swarm?.value && (
        <Section title="About this swarm">
          <Facts
            of={[
              ["swarm ID", <Digest of={swarm.value.swarm_id} />],
              ["SN that is asked", swarm.value.sn],
              ["raft leader", swarm.value.leader || "none: the SNs elect one"],
              ["SNs", swarm.value.sns?.map((s) => s.name + (s.live ? "" : " (does not answer)")).join(", ")],
              ["version of the SN", swarm.value.version],
              ["version of swarmctl", swarm.value.own_version],
              ["context", swarm.value.context],
              ["asked in the name of", swarm.value.identity?.spiffe_id],
              ["whose certificate expires", swarm.value.identity?.not_after && <Time at={swarm.value.identity.not_after} />],
              ["what this page may do", swarm.value.actions ? "read, approve and refuse tasks" : "read"],
              ["what the page is made of", <a href="/licenses.txt">licences of others</a>],
            ]}
          />
        </Section>
      )}
    </>
  );
}

function inShort(nodes: Node[], health: Health | undefined): string {
  const there = nodes.filter((n) => n.state !== "left");
  const parts = ["sn", "sl", "swop"].map((role) => [there.filter((n) => n.role === role).length, roles[role]!] as const).filter(([n]) => n > 0);
  const by = new Map(health?.nodes.map((h) => [h.name, h]));
  const bad = there.filter((n) => nodeTone(n, by.get(n.name)).tone !== "good").length;
  const made = parts.map(([n, word]) => many(n, word)).join(", ");
  return bad === 0 ? `${made}: all ${health ? "healthy" : "alive"}` : `${made}: ${count(there.length - bad)} of ${count(there.length)} ${health ? "healthy" : "alive"}`;
}

/** What the swarm waits for, in words: the worst first. */
function Waits({ nodes, health, contracts, approvals }: { nodes: Nodes | undefined; health: Health | undefined; contracts: Contract[] | undefined; approvals: Approval[] | undefined }) {
  if (!nodes || !contracts) return <p class="awaited">Asking the swarm…</p>;
  const by = new Map(health?.nodes.map((h) => [h.name, h]));
  const lines: ComponentChildren[] = [];
  for (const a of approvals ?? []) {
    lines.push(
      <li key={`a${a.assignment}${a.host}`}>
        <State tone="warn">approval</State>
        <div>
          <b>{a.host}</b> asks somebody before it carries out task <b>{a.task}</b>, <Time at={a.since} words="since" />: <a href={path("tasks")}>read and decide</a>
        </div>
      </li>,
    );
  }
  for (const c of nodes.candidates.filter((c) => !c.admitted)) {
    lines.push(
      <li key={`c${c.name}`}>
        <State tone="warn">admission</State>
        <div>
          SN <b>{c.name}</b> waits to be admitted, <Time at={c.since} words="since" />: <code>swarmctl admit node {c.name}</code>
        </div>
      </li>,
    );
  }
  for (const n of nodes.nodes) {
    const { tone, word } = nodeTone(n, by.get(n.name));
    if (tone === "good" || tone === "off") continue;
    const reason = by.get(n.name)?.reason;
    const ban = nodes.bans.find((b) => b.peer_id === n.peer_id);
    lines.push(
      <li key={`n${n.name}`}>
        <State tone={tone}>{word}</State>
        <div>
          <a href={path("node", n.name)}>{n.name}</a>
          {ban?.reason ? `, as “${ban.reason}”` : ""}
          {word === "dead" && (
            <>
              , <Time at={n.live_since} words="since" />
              <p class="soft">
                <b>To do:</b> look at its log on {n.host}, and start {n.name} again
              </p>
            </>
          )}
          {reason && word !== "dead" && (
            <>
              : <Words text={reason} />
            </>
          )}
        </div>
      </li>,
    );
  }
  for (const p of health?.pairs.filter((p) => p.state === "none" || p.state === "one way") ?? []) {
    lines.push(
      <li key={`p${p.a}/${p.b}`}>
        <State tone={p.state === "none" ? "bad" : "warn"}>{p.state === "none" ? "no link" : "one way"}</State>
        <div>
          {p.detail}
          {p.remedy && (
            <p class="soft">
              <Words text={p.remedy} />
            </p>
          )}
        </div>
      </li>,
    );
  }
  const open = contracts.filter((c) => c.phase !== "completed" && c.phase !== "uninitialised");
  return (
    <ul class="waits">
      {open.slice(0, 12).map((c) => (
        <ContractLine key={c.name} of={c} />
      ))}
      {lines}
      {open.length === 0 && (
        <li>
          <State tone="off">no training</State>
          <div>
            {contracts.length === 0 ? "There is no contract yet: the first program that starts makes one." : `No contract trains. ${many(contracts.length, "contract")}: `}
            {contracts.length > 0 && <a href={path("contracts")}>see how they ended</a>}
          </div>
        </li>
      )}
      {open.length > 0 && lines.length === 0 && nodes.nodes.length > 0 && (
        <li>
          <State tone="good">nodes</State>
          <div>Nothing is wrong with any node.</div>
        </li>
      )}
    </ul>
  );
}

function ContractLine({ of: c }: { of: Contract }) {
  const explain = useDoc(`explain/${c.name}`)?.value;
  const waits = !!explain?.waiting;
  const todo = explain?.explanation.filter((line) => line.startsWith("to do: ")).map((line) => line.slice(7)) ?? [];
  return (
    <li>
      <State tone={phaseTone(c.phase, explain?.stuck)}>{c.phase}</State>
      <div>
        <a href={path("contract", c.name)}>{c.name}</a>{/\bround \d/.test(explain?.waiting ?? "") ? "" : `, round ${count(c.round)}`}: {waits ? explain.waiting : explain ? `${many(c.open_sessions, "program")} train` : "…"}
        {todo.map((t) => (
          <p key={t} class="soft">
            <b>To do:</b> <Words text={t} />
          </p>
        ))}
      </div>
    </li>
  );
}

function NodeTable({ of, health }: { of: Nodes; health: Health | undefined }) {
  const by = new Map(health?.nodes.map((h) => [h.name, h]));
  const calm = (n: Node) => (["good", "off"].includes(nodeTone(n, by.get(n.name)).tone) ? 1 : 0);
  const [shown, more] = useFirst([...of.nodes].sort((a, b) => calm(a) - calm(b)));
  return (
    <>
    <Table
      class="nodes"
      caption="Nodes of the swarm"
      head={
        <>
          <th>node</th>
          <th>role</th>
          <th>state</th>
          <th>since</th>
          <th>seen by a leader</th>
          <th class="n">reaches</th>
          <th>address</th>
          <th>runs programs as</th>
          <th>version</th>
        </>
      }
    >
      {shown.map((n) => {
        const h = by.get(n.name);
        const { tone, word } = nodeTone(n, h);
        return (
          <tr key={n.name}>
            <th scope="row">
              <a href={path("node", n.name)}>{n.name}</a>
            </th>
            <td>{[roles[n.role] ?? n.role, ...marks(n)].join(", ")}</td>
            <td>
              <State tone={tone}>{word}</State>
            </td>
            <td>
              <Time at={n.live_since} />
            </td>
            <td>
              <Time at={h?.leader_seen} />
            </td>
            <td class="n">{n.needs ? `${n.reaches} of ${n.needs}` : "–"}</td>
            <td class="nowrap">{address(n)}</td>
            <td>{programs(n) || "–"}</td>
            <td class="nowrap">{n.version || "–"}</td>
          </tr>
        );
      })}
    </Table>
    {more}
    </>
  );
}

export const address = (n: Node) => (n.api_port || n.fs_port ? `${n.host}:${n.api_port || n.fs_port}` : n.host);

function Strangers({ of }: { of: Nodes }) {
  const known = new Set(of.nodes.map((n) => n.peer_id));
  const bans = of.bans.filter((b) => !known.has(b.peer_id));
  const admitted = of.candidates.filter((c) => c.admitted);
  if (bans.length + admitted.length + of.invited.length === 0) return null;
  return (
    <Section title="Not in the swarm">
      <ul class="waits">
        {bans.map((b) => (
          <li key={b.peer_id}>
            <State tone="bad">banned</State>
            <div>
              {b.name || "a node key"} <Digest of={b.peer_id} /> {b.reason && `as “${b.reason}”`}, <Time at={b.at} />
            </div>
          </li>
        ))}
        {admitted.map((c) => (
          <li key={c.peer_id}>
            <State tone="off">admitted</State>
            <div>SN {c.name} has been admitted and has not joined yet</div>
          </li>
        ))}
        {of.invited.map((i) => (
          <li key={i.number}>
            <State tone="off">invited</State>
            <div>
              SN {names([i.name])} was invited <Time at={i.at} />, and has not joined; the invitation ends <Time at={i.expires} />
            </div>
          </li>
        ))}
      </ul>
    </Section>
  );
}
