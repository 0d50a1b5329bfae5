// The swarm as a drawn map: nodes by role and state, and how they are connected.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Health, Node, NodeHealth, Pair } from "./documents.gen";
import { layout, type Layout, type Place } from "./layout";
import { path } from "./route";
import { marks, nodeTone, roles } from "./words";

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
  const several = (role: string) => nodes.filter((n) => n.role === role && n.live).length > 1;
  return (
    <figure class="map" ref={ref}>
      {width > 0 && <Drawing of={layout(nodes, width)} health={health} />}
      <figcaption class="key small soft">
        <Key name="SN" shape="sn" />
        {nodes.some((n) => n.role === "sl") && <Key name="SL" shape="sl" />}
        {nodes.some((n) => n.role === "swop") && <Key name="SWOP" shape="swop" />}
        {several("sn") && <Line name="SN to leader" class="link raft" />}
        {nodes.some((n) => n.role !== "sn") && <Line name="node to leader" class="link control" />}
        {several("sl") && <Line name="SL to SL: models" class="link models" />}
        {!!health?.pairs.some((p) => p.state === "none") && <Line name="no connection" class="link none" />}
        {!!health?.pairs.some((p) => p.state === "one way") && <Line name="only one way" class="link way" />}
        {!!health?.pairs.some((p) => p.state === "refused") && <Line name="refused" class="link refused" />}
        <span>The table below says the same.</span>
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

function Drawing({ of, health }: { of: Layout; health: Health | undefined }) {
  const byName = new Map((health?.nodes ?? []).map((h) => [h.name, h]));
  const places = new Map(of.places.map((p) => [p.node.name, p]));
  const pairs = (health?.pairs ?? []).filter((p) => places.has(p.a) && places.has(p.b));
  const troubled = new Set(pairs.map((p) => pairKey(p.a, p.b)));
  const well = wellLinks(of.places, troubled);
  const r = of.names === "beside" ? 9 : of.places.length > 60 ? 5.5 : 7;
  const summary = `Map of ${of.places.length} nodes`;
  return (
    <svg class="swarm" width={of.width} height={of.height} viewBox={`0 0 ${of.width} ${of.height}`} role="group" aria-label={summary}>
      <path class={of.places.length > few ? "link models many" : "link models"} d={lines(well.models, of)} />
      <path class="link control" d={lines(well.control)} />
      <path class="link raft" d={lines(well.raft)} />
      {pairs.map((p) => (
        <Trouble key={pairKey(p.a, p.b)} pair={p} a={places.get(p.a)!} b={places.get(p.b)!} of={of} />
      ))}
      {of.places.map((p) => (
        <Dot key={p.node.name} at={p} layout={of} r={p.node.role === "sn" ? r + 1 : r} health={byName.get(p.node.name)} />
      ))}
    </svg>
  );
}

const pairKey = (a: string, b: string) => [a, b].sort().join("\n");

type Line = [Place, Place];

/** The connections that stand as far as is known: the leader's with all, and those of SLs among each other. */
function wellLinks(places: Place[], troubled: Set<string>) {
  const there = places.filter((p) => p.node.live && !p.node.banned);
  const leader = there.find((p) => p.node.leader);
  const raft: Line[] = [];
  const models: Line[] = [];
  const control: Line[] = [];
  for (const [i, a] of there.entries()) {
    if (leader && a !== leader && !troubled.has(pairKey(a.node.name, leader.node.name))) {
      (a.node.role === "sn" ? raft : control).push([a, leader]);
    }
    if (a.node.role !== "sl") continue;
    for (const b of there.slice(i + 1)) {
      if (b.node.role === "sl" && !troubled.has(pairKey(a.node.name, b.node.name))) models.push([a, b]);
    }
  }
  return { raft, models, control };
}

const few = 40; // nodes whose connections can be told apart

/** Draws lines; on a map of few nodes those between nodes of the ring around the SNs. */
function lines(all: Line[], around?: Layout): string {
  const xy = (x: number, y: number) => `${x.toFixed(1)} ${y.toFixed(1)}`;
  return all
    .map(([a, b]) => {
      const from = `M${xy(a.x, a.y)}`;
      if (!around || around.places.length > few) return `${from}L${xy(b.x, b.y)}`;
      const { x, y, rx, ry } = around.ring;
      const [dx, dy] = [(a.x + b.x) / 2 - x, (a.y + b.y) / 2 - y];
      const far = Math.hypot(dx / rx, dy / ry); // of their middle, as a share of the ring's
      const bend = far < 0.05 ? 1 : (2 * Math.max(far, Math.min(0.9, 1.8 * far))) / far - 1;
      return `${from}Q${xy(x + bend * dx, y + bend * dy)} ${xy(b.x, b.y)}`;
    })
    .join("");
}

const pairClass: Record<string, string> = { none: "none", "one way": "way", refused: "refused", "not known": "unknown" };

function Trouble({ pair, a, b, of }: { pair: Pair; a: Place; b: Place; of: Layout }) {
  return (
    <path class={`link ${pairClass[pair.state] ?? "unknown"}`} d={lines([[a, b]], a.node.role === b.node.role ? of : undefined)}>
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
  return (
    <g transform={`translate(${at.x.toFixed(1)} ${at.y.toFixed(1)})`}>
      <title>{all}</title>
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
