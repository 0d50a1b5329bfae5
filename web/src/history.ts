// A history that grows with a training: rounds that come are joined to it, and columns for curves grow with it.
import type { History, HistoryRound } from "./documents.gen";

const points = 1200; // of a history that grows while it is shown; older rounds are thinned then

/** Merges rounds that came into those that are there, by their numbers; undefined: those are not there, and what came is not all. */
export function merged(had: History | undefined, came: History): History | undefined {
  if (came.after == null) return came;
  if (!had || had.run !== came.run) return undefined;
  const all = joined(had.rounds, came.rounds);
  const old = all.length - points / 2;
  const rounds = all.length > points ? all.filter((r, i) => i >= old || i % 2 === 0 || r.failed.length > 0) : all;
  return { ...came, thinned: (rounds.at(-1)?.round ?? 0) - rounds.length, rounds };
}

/** Both lists in order; of two rounds with one number that which came. */
function joined(had: HistoryRound[], came: HistoryRound[]): HistoryRound[] {
  const fresh = new Map(came.map((r) => [r.round, r]));
  const first = Math.min(...fresh.keys());
  let at = had.length;
  while (at > 0 && had[at - 1]!.round >= first) at--;
  const rest = had.slice(at).filter((r) => !fresh.has(r.round));
  return [...had.slice(0, at), ...[...rest, ...fresh.values()].sort((a, b) => a.round - b.round)];
}

/** How many rounds at the start of a list are the very ones of another. */
export function same<T>(a: T[], b: T[]): number {
  const most = Math.min(a.length, b.length);
  let n = 0;
  while (n < most && a[n] === b[n]) n++;
  return n;
}

export type Values = (number | null)[];

interface Measures {
  loss: Values;
  metric: Values;
}

/** Columns of a history. They are kept, and have rounds added: only those that are others are read. */
export class Columns {
  rounds: number[] = [];
  took: Values = [];
  main: Measures = { loss: [], metric: [] };
  peers = new Map<string, Measures>();
  private of: HistoryRound[] = [];

  constructor(private readonly time: (r: HistoryRound) => number | null) {}

  take(all: HistoryRound[]): void {
    const from = same(this.of, all);
    if (from < this.of.length) this.cut(from);
    for (let i = from; i < all.length; i++) this.add(all[i]!, i);
    this.rounds = all.map((r) => r.round);
    this.of = all;
  }

  /** Keeps the first values of columns. Who draws those that were has them as they are. */
  private cut(to: number): void {
    const first = (m: Measures) => ({ loss: m.loss.slice(0, to), metric: m.metric.slice(0, to) });
    this.took = this.took.slice(0, to);
    this.main = first(this.main);
    this.peers = new Map(to === 0 ? [] : [...this.peers].map(([node, m]) => [node, first(m)]));
  }

  private add(round: HistoryRound, i: number): void {
    this.took.push(this.time(round));
    this.main.loss.push(round.loss);
    this.main.metric.push(round.metric);
    for (const m of this.peers.values()) {
      m.loss.push(null);
      m.metric.push(null);
    }
    for (const p of round.peers) {
      let m = this.peers.get(p.node);
      if (!m) this.peers.set(p.node, (m = { loss: Array<null>(i + 1).fill(null), metric: Array<null>(i + 1).fill(null) }));
      m.loss[i] = p.loss;
      m.metric[i] = p.metric;
    }
  }
}
