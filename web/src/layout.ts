// Where nodes stand on the map: SNs in the middle, the others around them.
import type { Node } from "./documents.gen";

export interface Place {
  node: Node;
  x: number;
  y: number;
  /** outward, in radians */
  angle: number;
}

export interface Layout {
  width: number;
  height: number;
  /** the ellipse on which all but SNs stand */
  ring: { x: number; y: number; rx: number; ry: number };
  places: Place[];
  /** how names are written: beside the node, along the ray on which it stands, or not at all */
  names: "beside" | "rays" | "none";
}

const order: Record<string, number> = { sl: 0, swop: 1 };

/** Places nodes on a map of a width. */
export function layout(nodes: Node[], width: number): Layout {
  const inner = nodes.filter((n) => n.role === "sn");
  const outer = nodes.filter((n) => n.role !== "sn").sort((a, b) => (order[a.role] ?? 2) - (order[b.role] ?? 2) || a.name.localeCompare(b.name, "en", { numeric: true }));
  const narrow = width < 520;
  const names = nodes.length <= (narrow ? 9 : 26) ? "beside" : narrow ? "none" : "rays";
  const height = names === "beside" ? Math.round(Math.max(300, Math.min(width * 0.5, narrow ? 340 : 300 + 8 * outer.length))) : Math.min(width, 720);
  const margin = names === "beside" ? { x: narrow ? 70 : 120, y: 48 } : names === "rays" ? { x: 110, y: 110 } : { x: 16, y: 16 };
  const rx = names === "beside" ? Math.min(width / 2 - margin.x, height * 1.15) : Math.min(width, height) / 2 - margin.x;
  const ry = height / 2 - margin.y;
  const share = names === "beside" ? 0.46 : 0.42;
  const places = [...ring(outer, width / 2, height / 2, rx, ry, inner.length > 0 ? 0.5 : 0), ...ring(inner, width / 2, height / 2, inner.length > 1 ? rx * share : 0, inner.length > 1 ? ry * share : 0)];
  const ellipse = { x: width / 2, y: height / 2, rx, ry };
  if (names !== "beside" || places.length === 0) return { width, height, ring: ellipse, names, places };
  const top = Math.min(...places.map((p) => p.y)) - 60; // room for a name of two lines
  const bottom = Math.max(...places.map((p) => p.y)) + margin.y;
  return { width, height: Math.round(bottom - top), ring: { ...ellipse, y: ellipse.y - top }, names, places: places.map((p) => ({ ...p, y: p.y - top })) };
}

/** Nodes on an ellipse, from the top on, or a share of a step behind it: between those of another one. */
function ring(nodes: Node[], x: number, y: number, rx: number, ry: number, share = 0): Place[] {
  return nodes.map((node, i) => {
    const angle = -Math.PI / 2 + (2 * Math.PI * (i + share)) / nodes.length;
    return { node, angle, x: x + rx * Math.cos(angle), y: y + ry * Math.sin(angle) };
  });
}
