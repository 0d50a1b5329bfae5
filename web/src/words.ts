// States as words and tones.
import type { History, Node, NodeHealth, Status } from "./documents.gen";
import type { Tone } from "./parts";

export const roles: Record<string, string> = { sn: "SN", sl: "SL", swop: "SWOP" };
export const roleNames: Record<string, string> = { sn: "Swarm Network node", sl: "Swarm Learning node", swop: "Swarm Operator" };

/** What a node is besides its role. */
export function marks(n: Node): string[] {
  return [n.leader && "leader", n.sentinel && "Sentinel"].filter((x): x is string => !!x);
}

/** As what an SL runs its program, empty for other nodes. */
export const programs = (n: Node) => (n.role !== "sl" ? "" : n.runtime === "docker" ? "containers" : n.runtime);

/** A node's state in one word, and how good it is. */
export function nodeTone(n: Node, h: NodeHealth | undefined): { tone: Tone; word: string } {
  if (n.banned || n.state === "banned") return { tone: "bad", word: "banned" };
  if (n.state === "left") return { tone: "off", word: "left" };
  if (n.state === "dead" || n.state === "no answer") return { tone: "bad", word: n.state };
  if (n.state !== "alive") return { tone: "warn", word: n.state }; // "unknown", or a state that a newer SN tells
  if (h && !h.healthy && !h.left_reason) return { tone: "warn", word: "unhealthy" };
  return { tone: "good", word: h ? "healthy" : n.state };
}

/** A contract's phase. */
export function phaseTone(phase: string, waits = false): Tone {
  switch (phase) {
    case "training":
    case "finalising":
    case "enrolling":
      return waits ? "warn" : "busy";
    case "paused":
      return "warn";
    case "completed":
      return "good";
  }
  return "off";
}

/** What became of an assignment or a job. */
export function verdictTone(phase: string, verdict: string): { tone: Tone; word: string } {
  switch (verdict) {
    case "succeeded":
      return { tone: "good", word: verdict };
    case "failed":
      return { tone: "bad", word: verdict };
    case "cancelled":
      return { tone: "off", word: verdict };
  }
  return { tone: phase === "waiting" ? "warn" : "busy", word: phase };
}

export function memberTone(state: string, code: number | null): Tone {
  switch (state) {
    case "exited":
      return code === 0 ? "good" : "bad";
    case "refused":
    case "lost":
      return "bad";
    case "asked":
      return "warn";
    case "stopped":
      return "off";
  }
  return "busy";
}

/** What programs call the metric: in the newest round that says so, in the rounds or sessions of the run; "metric" where none says, or they differ. */
export function metricName(h: (Pick<History, "rounds"> & Partial<Pick<History, "metric_name">>) | undefined, s?: Status): string {
  const said = h?.rounds.findLast((r) => r.metric_name !== undefined)?.metric_name ?? (h?.metric_name || s?.metric_name);
  return said || "metric";
}

/** A name as a title. */
export const title = (name: string) => name[0]!.toUpperCase() + name.slice(1);
