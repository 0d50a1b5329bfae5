// Who contributed to which rounds, and with what share: sums that grow with the rounds.
import type { HistoryPeer } from "./documents.gen";
import { same } from "./history";

/** What is known of who contributed. */
export interface Shares {
  rounds: { round: number; peers: Pick<HistoryPeer, "node" | "weight" | "contributed" | "sent" | "received">[] }[];
}

export interface Contribution {
  node: string;
  rounds: number;
  weight: number | null;
  share: number;
  sent: number | null;
  received: number | null;
  /** its share in each round, from 0 upwards to minus the share */
  path: string;
}

export interface Contributed {
  rows: Contribution[];
  /** the largest share in a round */
  largest: number;
}

const most = 800; // columns of a path: more than there are pixels
const newest = 32; // rounds that may still change: what is reported of a round comes after it

/** How a peer's row stands while rounds are added to it. */
interface Row extends Contribution {
  column: number; // that is summed up
  sum: number; // of its shares there
  from: number; // rounds of columns with the same height, which are not in the path yet
  to: number;
  height: number;
}

/** Sums of the first rounds. */
class Sums {
  rows = new Map<string, Row>();
  weights = 0;
  largest = 1e-9;
  rounds = 0;

  constructor(readonly width: number) {} // rounds in a column of a path

  copy(): Sums {
    const all = new Sums(this.width);
    for (const [node, row] of this.rows) all.rows.set(node, { ...row });
    [all.weights, all.largest, all.rounds] = [this.weights, this.largest, this.rounds];
    return all;
  }

  add(round: Shares["rounds"][number]): void {
    let whole = 0;
    for (const p of round.peers) if (p.contributed) whole += p.weight ?? 1;
    whole ||= 1;
    this.weights += whole;
    const column = Math.floor(this.rounds++ / this.width);
    for (const p of round.peers) {
      let row = this.rows.get(p.node);
      if (!row) this.rows.set(p.node, (row = { node: p.node, rounds: 0, weight: null, share: 0, sent: null, received: null, path: "", column, sum: 0, from: 0, to: 0, height: 0 }));
      if (p.sent !== null) row.sent = (row.sent ?? 0) + p.sent;
      if (p.received !== null) row.received = (row.received ?? 0) + p.received;
      if (!p.contributed) continue;
      const weight = p.weight ?? 1;
      row.rounds++;
      row.weight = p.weight;
      row.share += weight;
      if (row.column !== column) this.close(row, column);
      row.sum += weight / whole;
      this.largest = Math.max(this.largest, weight / whole);
    }
  }

  /** Begins another column: that before it has the mean of its shares. Columns beside it that look the same are drawn as one. */
  private close(row: Row, next: number): void {
    const from = row.column * this.width;
    const to = Math.min(from + this.width, this.rounds);
    const height = row.sum / (to - from);
    if (row.sum > 0) {
      if (row.to === from && row.to > row.from && Math.abs(row.height - height) < this.largest / 64) row.to = to;
      else {
        row.path += drawn(row);
        [row.from, row.to, row.height] = [from, to, height];
      }
    }
    [row.column, row.sum] = [next, 0];
  }

  /** All rows. Nothing can be added any more. */
  end(): Contributed {
    for (const row of this.rows.values()) {
      this.close(row, Infinity);
      row.path += drawn(row);
      row.share /= this.weights || 1;
    }
    return { rows: [...this.rows.values()].sort((a, b) => inOrder(a.node, b.node)), largest: this.largest };
  }
}

const drawn = (r: Row) => (r.to > r.from ? `M${r.from} 0V${-Number(r.height.toPrecision(3))}H${r.to}V0Z` : "");

/** Names of nodes in the order that people expect. */
export const inOrder = new Intl.Collator("en", { numeric: true }).compare;

/** Keeps the sums of the rounds that will hardly change. */
export class Tally {
  private of: Shares["rounds"] = [];
  private kept = new Sums(1);

  take(all: Shares["rounds"]): Contributed {
    const width = 2 ** Math.max(0, Math.ceil(Math.log2(all.length / most)));
    if (this.kept.width !== width || same(this.of, all) < this.kept.rounds) this.kept = new Sums(width);
    this.of = all;
    while (this.kept.rounds < all.length - newest) this.kept.add(all[this.kept.rounds]!);
    const sums = this.kept.copy();
    while (sums.rounds < all.length) sums.add(all[sums.rounds]!);
    return sums.end();
  }
}

const tally = new Tally(); // of the contract that is shown
const summed = new WeakMap<Shares, Contributed>();

/** Sums up who contributed. */
export function contributions(of: Shares): Contributed {
  let all = summed.get(of);
  if (!all) summed.set(of, (all = tally.take(of.rounds)));
  return all;
}
