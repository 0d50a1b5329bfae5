// The swarm as a drawn map: nodes by role and state, and which connections stand, as far as health tells.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Health, Node, NodeHealth, Pair } from "./documents.gen";
import { absolute } from "./format";
import { layout, type Layout, type Place } from "./layout";
import { path } from "./route";
import { marks, nodeTone, programs, roles } from "./words";

/** The width of an element, as it changes. */
export function useWidth<E extends HTMLElement>(first = 0) {
  const ref = useRef<E>(null);
  const [width, set] = useState(first);
  useEffect(() => {
    if (!ref.current) return;
    const watcher = new ResizeObserver(([entry]) => entry && set(Math.floor(entry.contentRect.width)));
    watcher.observe(ref.current);
    return () => watcher.disconnect();
  }, []);
  return [ref, width] as const;
}

export function SwarmMap({ nodes, health }: { nodes: Node[]; health: Health | undefined }) {
  const [ref, width] = useWidth<HTMLDivElement>();
  const of = useMemo(() => layout(nodes, width), [nodes, width]);
  const links = useMemo(() => linksOf(nodes, health), [nodes, health]);
  const has = (state: string) => links.pairs.some((p) => p.state === state);
  return (
    <figure class="map" ref={ref}>
      {width > 0 && <Drawing of={of} health={health} links={links} />}
      <figcaption class="key small soft">
        <Key name="SN" shape="sn" />
        {nodes.some((n) => n.role === "sl") && <Key name="SL" shape="sl" />}
        {nodes.some((n) => n.role === "swop") && <Key name="SWOP" shape="swop" />}
        {links.raft.length > 0 && <Line name="SN to SN" class="link raft" />}
        {links.control.length > 0 && <Line name="SL to its SN" class="link control" />}
        {links.peers.some((g) => g.length > 1) && (nodes.length > few ? <Line name="SL to SL: models, of the SL that is pointed at or has the focus" class="link models one" /> : <Line name="SL to SL: models" class="link models" />)}
        {has("none") && <Line name="no connection" class="link none" />}
        {has("one way") && <Line name="only one way" class="link way" />}
        {has("refused") && <Line name="refused" class="link refused" />}
        {has("not known") && <Line name="not known" class="link unknown" />}
        <span>
          {!health ? "No connection is drawn: health is not known." : `A line is a connection that nodes tell of${nodes.some((n) => n.role === "swop") ? "; SWOPs tell of none" : ""}. The table below has the nodes.`}
        </span>
      </figcaption>
    </figure>
  );
}

function Key({ name, shape }: { name: string; shape: string }) {
  return (
    <span>
      <svg viewBox="-9 -9 18 18" aria-hidden="true">
        <g class="node good">
          <Shape role={shape} r={6.5} />
        </g>
      </svg>
      {name}
    </span>
  );
}

function Line({ name, class: c }: { name: string; class: string }) {
  return (
    <span>
      <svg class="line" viewBox="0 0 26 8" aria-hidden="true">
        <path class={c} d="M1 4H25" />
      </svg>
      {name}
    </span>
  );
}

function Shape({ role, r }: { role: string; r: number }) {
  switch (role) {
    case "sn":
      return <rect x={-r} y={-r} width={2 * r} height={2 * r} rx={r * 0.3} />;
    case "swop":
      return <path d={`M0 ${-r * 1.2}L${r * 1.2} 0L0 ${r * 1.2}L${-r * 1.2} 0Z`} />;
  }
  return <circle r={r} />;
}

/** Connections by the names of their nodes. */
interface Links {
  /** of SNs with each other */
  raft: Two[];
  /** of other nodes with SNs */
  control: Two[];
  /** SLs each two of which have one, unless the two are troubled */
  peers: string[][];
  /** what is not well */
  pairs: Pair[];
  troubled: Set<string>;
}

type Two = [string, string];

const pairKey = (a: string, b: string) => [a, b].sort().join("\n");

/** The connections of which health says how they are; of those that it calls well, the ones whose nodes are there. */
function linksOf(nodes: Node[], health: Health | undefined): Links {
  const roleOf = new Map(nodes.filter((n) => n.live && !n.banned).map((n) => [n.name, n.role]));
  const known = new Set(nodes.map((n) => n.name));
  const pairs = (health?.pairs ?? []).filter((p) => known.has(p.a) && known.has(p.b));
  const links: Links = { raft: [], control: [], peers: [], pairs, troubled: new Set(pairs.map((p) => pairKey(p.a, p.b))) };
  for (const { nodes: all } of health?.linked ?? []) {
    const group = all.filter((n) => roleOf.has(n));
    if (group.every((n) => roleOf.get(n) === "sl")) links.peers.push(group);
    else for (const [a, b] of twos(group, links)) links[roleOf.get(a) === "sn" && roleOf.get(b) === "sn" ? "raft" : "control"].push([a, b]);
  }
  return links;
}

/** Each two of a group that have a connection. */
function twos(group: string[], { troubled }: Links): Two[] {
  return group.flatMap((a, i) => group.slice(i + 1).filter((b) => !troubled.has(pairKey(a, b))).map((b): Two => [a, b]));
}

/** The connections of one SL with others. */
function ofOne(name: string, { peers, troubled }: Links): Two[] {
  return peers.filter((g) => g.includes(name)).flatMap((g) => g.filter((b) => b !== name && !troubled.has(pairKey(name, b))).map((b): Two => [name, b]));
}

const apart = 200; // lines of which each is an element of its own, with its words

function Drawing({ of, health, links }: { of: Layout; health: Health | undefined; links: Links }) {
  const [at, setAt] = useState(""); // the node that is pointed at or has the focus
  const places = useMemo(() => new Map(of.places.map((p) => [p.node.name, p])), [of]);
  const placed = (all: Two[]) => all.map(([a, b]): [Place, Place] => [places.get(a)!, places.get(b)!]);
  const many = of.places.length > few;
  const drawn = useMemo(() => ({ raft: lines(placed(links.raft), of), control: lines(placed(links.control), of), models: many ? "" : lines(placed(links.peers.flatMap((g) => twos(g, links))), of) }), [of, links]);
  const r = of.names === "beside" ? 9 : of.places.length > 60 ? 5.5 : 7;
  const dots = useMemo(() => {
    const byName = new Map((health?.nodes ?? []).map((h) => [h.name, h]));
    return of.places.map((p) => <Dot key={p.node.name} at={p} layout={of} r={p.node.role === "sn" ? r + 1 : r} health={byName.get(p.node.name)} />);
  }, [of, health]);
  const pairs = many ? links.pairs.filter((p) => p.state !== "not known" || p.a === at || p.b === at) : links.pairs;
  const point = (e: Event) => many && setAt((e.target as Element).closest("[data-node]")?.getAttribute("data-node") ?? "");
  return (
    <svg class="swarm" width={of.width} height={of.height} viewBox={`0 0 ${of.width} ${of.height}`} role="group" aria-label={`Map of ${of.places.length} nodes`} onPointerOver={point} onPointerLeave={() => setAt("")} onFocusIn={point} onFocusOut={() => setAt("")}>
      <path class="link models" d={drawn.models} />
      <path class="link control" d={drawn.control} />
      <path class="link raft" d={drawn.raft} />
      {many && <path class="link models one" d={lines(placed(ofOne(at, links)))} />}
      {pairs.length > apart
        ? Object.entries(pairClass).map(([state, c]) => <path key={state} class={`link ${c}`} d={lines(placed(pairs.filter((p) => p.state === state).map((p): Two => [p.a, p.b])))} />)
        : pairs.map((p) => <Trouble key={pairKey(p.a, p.b)} pair={p} a={places.get(p.a)!} b={places.get(p.b)!} of={of} />)}
      {dots}
    </svg>
  );
}

const few = 40; // nodes whose connections can be told apart; of more those of one SL with others are drawn at a time

/** Draws lines; on a map of few nodes those between nodes of the ring around the SNs, and others around an SN that they do not end at. */
function lines(all: [Place, Place][], around?: Layout): string {
  const xy = (x: number, y: number) => `${x.toFixed(1)} ${y.toFixed(1)}`;
  const inner = around?.places.filter((p) => p.node.role === "sn") ?? [];
  return all
    .map(([a, b]) => {
      const from = `M${xy(a.x, a.y)}`;
      const [mx, my] = [(a.x + b.x) / 2, (a.y + b.y) / 2];
      if (around && a.node.role === b.node.role && a.node.role !== "sn" && around.places.length <= few) {
        const { x, y, rx, ry } = around.ring;
        const far = Math.hypot((mx - x) / rx, (my - y) / ry); // of their middle, as a share of the ring's
        const bend = far < 0.05 ? 1 : (2 * Math.max(far, Math.min(0.9, 1.8 * far))) / far - 1;
        return `${from}Q${xy(x + bend * (mx - x), y + bend * (my - y))} ${xy(b.x, b.y)}`;
      }
      const [dx, dy, long] = [b.x - a.x, b.y - a.y, Math.hypot(b.x - a.x, b.y - a.y) || 1];
      const aside = inner
        .filter((p) => p !== a && p !== b && (p.x - a.x) * dx + (p.y - a.y) * dy > 0 && (b.x - p.x) * dx + (b.y - p.y) * dy > 0)
        .map((p) => ((p.y - a.y) * dx - (p.x - a.x) * dy) / long) // how far the SN stands beside the line
        .find((d) => Math.abs(d) < near);
      if (aside === undefined) return `${from}L${xy(b.x, b.y)}`;
      const by = (aside > 0 ? -4 : 4) * near; // half of it where the line is farthest off
      return `${from}Q${xy(mx - (by * dy) / long, my + (by * dx) / long)} ${xy(b.x, b.y)}`;
    })
    .join("");
}

const near = 14; // px from an SN, from which on a line goes around it

const pairClass: Record<string, string> = { none: "none", "one way": "way", refused: "refused", "not known": "unknown" };

function Trouble({ pair, a, b, of }: { pair: Pair; a: Place; b: Place; of: Layout }) {
  return (
    <path class={`link ${pairClass[pair.state] ?? "unknown"}`} d={lines([[a, b]], of)}>
      <title>{`${pair.a} and ${pair.b}: ${pair.detail || pair.state}`}</title>
    </path>
  );
}

function Dot({ at, layout, r, health }: { at: Place; layout: Layout; r: number; health: NodeHealth | undefined }) {
  const { node: n } = at;
  const { tone, word } = nodeTone(n, health);
  const notes = marks(n);
  const second = [...notes, ...(tone === "good" ? [] : [word])].join(", ");
  const all = [[n.name, second].filter(Boolean).join(" "), roles[n.role] ?? n.role, word, health?.reason].filter(Boolean).join(", ");
  const seen = Date.parse(health?.leader_seen ?? "");
  const also = [n.version && `version ${n.version}`, programs(n) && `runs programs as ${programs(n)}`, seen > 0 && `seen by a leader ${absolute(seen).slice(0, 16)} UTC`]; // to the minute: else each update changes all
  return (
    <g transform={`translate(${at.x.toFixed(1)} ${at.y.toFixed(1)})`} data-node={n.name}>
      <title>{[all, ...also].filter(Boolean).join("\n")}</title>
      <a href={path("node", n.name)} class={`node ${tone}`} aria-label={all}>
      <circle class="target" r={Math.max(12, r + 3)} />
      {n.leader && <Shape role={n.role} r={r + 4} />}
      <Shape role={n.role} r={r} />
      {(tone === "bad" || tone === "warn") && <path class="cross" d={tone === "bad" ? `M${-r * 0.45} ${-r * 0.45}L${r * 0.45} ${r * 0.45}M${r * 0.45} ${-r * 0.45}L${-r * 0.45} ${r * 0.45}` : `M0 ${-r * 0.5}V${r * 0.15}M0 ${r * 0.45}V${r * 0.5}`} />}
      {layout.names !== "none" && <Name at={at} layout={layout} r={r} name={n.name} second={second} />}
      </a>
    </g>
  );
}

function Name({ at, layout, r, name, second }: { at: Place; layout: Layout; r: number; name: string; second: string }) {
  if (layout.names === "rays" && at.node.role !== "sn") {
    const turned = Math.cos(at.angle) < -1e-6;
    const degrees = (at.angle * 180) / Math.PI + (turned ? 180 : 0);
    return (
      <text transform={`rotate(${degrees.toFixed(1)})`} x={turned ? -r - 6 : r + 6} dy="0.32em" text-anchor={turned ? "end" : "start"} class="ray">
        {clip(name, 14)}
        {second && <tspan class="second"> {second}</tspan>}
      </text>
    );
  }
  const cos = Math.cos(at.angle);
  const upper = Math.sin(at.angle) < 0;
  const side = at.node.role !== "sn" && Math.abs(cos) > 0.35;
  const most = layout.width < 520 ? 12 : 22;
  if (side) {
    const x = cos > 0 ? r + 8 : -r - 8;
    return (
      <text text-anchor={cos > 0 ? "start" : "end"}>
        <tspan class="name" x={x} dy={second ? "-0.15em" : "0.35em"}>
          {clip(name, most)}
        </tspan>{" "}
        {second && (
          <tspan class="second" x={x} dy="1.2em">
            {clip(second, most)}
          </tspan>
        )}
      </text>
    );
  }
  const top = upper;
  return (
    <text text-anchor="middle">
      <tspan class="name" x="0" y={top ? -r - (second ? 22 : 9) : r + 19}>
        {clip(name, most)}
      </tspan>{" "}
      {second && (
        <tspan class="second" x="0" dy="1.2em">
          {clip(second, 22)}
        </tspan>
      )}
    </text>
  );
}

const clip = (s: string, most: number) => (s.length > most ? `${s.slice(0, most - 1)}…` : s);
