// Rounds as a timeline: how long each part took, attempts and why one failed, and who contributed.
import { useState } from "preact/hooks";
import type { History, HistoryPeer, HistoryRound } from "./documents.gen";
import { count, many, measure, size, span } from "./format";
import { Pager, usePages } from "./paged";
import { Digest, Names, Table, Time } from "./parts";

export const phases = ["waiting", "training", "exchange", "commit"] as const;
const drawn = ["training", "waiting", "exchange", "commit"] as const; // in the order of time

/** How long a round took, of what is known. */
export const took = (r: HistoryRound) => phases.reduce((sum, p) => sum + (r.durations_ms[p] ?? 0), 0);

export function Rounds({ of, going }: { of: History; going: boolean }) {
  const [failedOnly, setFailed] = useState(false);
  const all = failedOnly ? of.rounds.filter((r) => r.failed.length > 0) : of.rounds;
  const failed = of.rounds.filter((r) => r.failed.length > 0).length;
  const pages = usePages([...all].reverse());
  const { shown } = pages;
  const full = scale(shown);
  const [loss, metric] = (["loss", "metric"] as const).map((what) => (going ? awaitedFrom(of.rounds, what) : Infinity)) as [number, number];
  return (
    <div class="rounds">
      <div class="bar-tools">
        <p class="key small soft">
          {drawn.map((p) => (
            <span key={p}>
              <i class={`swatch phase ${p}`} aria-hidden="true" />
              {p}
            </span>
          ))}
        </p>
        <div class="pager">
          {failed > 0 && (
            <button type="button" class="quiet" aria-pressed={failedOnly} onClick={() => (setFailed(!failedOnly), pages.go(0))}>
              with failed attempts ({count(failed)})
            </button>
          )}
          <Pager first={pages.first} shown={shown.length} all={all.length} go={pages.go} />
        </div>
      </div>
      <div {...pages.still}>
      <Table
        caption="Rounds, newest first"
        head={
          <>
            <th class="n">round</th>
            <th class="wide">time by phase</th>
            <th class="n">took</th>
            <th class="n">loss</th>
            <th class="n">metric</th>
            <th class="n">sent</th>
            <th>merged models of</th>
            <th>model</th>
            <th>committed</th>
          </>
        }
      >
        {shown.map((r) => (
          <tr key={r.round}>
            <th scope="row" class="n">
              {count(r.round)}
            </th>
            <td class="wide">
              <Phases of={r} full={full} />
              {r.failed.map((f) => (
                <p class="failed small" key={f.attempt}>
                  attempt {f.attempt} failed{f.blamed && ` by ${f.blamed}`}: {f.reason}
                </p>
              ))}
            </td>
            <td class="n">{span(took(r))}</td>
            <td class="n"><Merged of={r} what="loss" awaited={loss} /></td>
            <td class="n"><Merged of={r} what="metric" awaited={metric} /></td>
            <td class="n">{size(r.bytes_sent)}</td>
            <td title={members(r).join(", ")}>
              <Names of={members(r)} most={3} />
            </td>
            <td>
              <Digest of={r.digest} />
            </td>
            <td>
              <Time at={r.committed} />
            </td>
          </tr>
        ))}
      </Table>
      </div>
      <PlainMeans of={of.rounds} />
      {of.thinned > 0 && <p class="soft small">{many(of.thinned, "round")} between those shown {of.thinned === 1 ? "is" : "are"} left out. The ledger has all.</p>}
    </div>
  );
}

/** From which round on programs have yet to report a figure of the merged model: they do so while they train the rounds that follow. */
export function awaitedFrom(rounds: HistoryRound[], what: "loss" | "metric"): number {
  const newest = rounds.at(-1);
  if (!newest) return Infinity;
  const known = rounds.filter((r) => r[what] !== null).at(-1);
  if (!known) return rounds.some((r) => r.loss !== null || r.metric !== null) ? Infinity : newest.round;
  const late = Date.parse(newest.committed ?? "") - 15_000;
  return rounds.find((r) => r.round > known.round && Date.parse(r.committed ?? "") >= late)?.round ?? Infinity;
}

/** A figure of the merged model. */
export function Merged({ of: r, what, awaited }: { of: HistoryRound; what: "loss" | "metric"; awaited: number }) {
  if (r[what] === null && r.round >= awaited) return <span class="soft nowrap">not reported yet</span>;
  return <>{measure(r[what])}</>;
}

/** Says of how many rounds the merged model's figures are no means by weights. */
export function PlainMeans({ of }: { of: HistoryRound[] }) {
  const plain = of.filter((r) => !r.weighted && (r.loss !== null || r.metric !== null)).length;
  if (plain === 0) return null;
  return <p class="soft small">The weights of {many(plain, "round")} are not known: loss and metric of the merged model are plain means there.</p>;
}

const members = (r: HistoryRound) => r.peers.filter((p) => p.contributed).map((p) => p.node);

/** The length of a whole bar: longer than most, so that one long wait does not hide all others. */
function scale(rounds: HistoryRound[]): number {
  const all = rounds.map(took).sort((a, b) => a - b);
  const most = all[Math.floor(0.88 * (all.length - 1))] ?? 1;
  const max = all.at(-1) ?? 1;
  return Math.max(1, max <= 2 * most ? max : 1.25 * most);
}

function Phases({ of, full }: { of: HistoryRound; full: number }) {
  let x = 0;
  const words = drawn.map((p) => `${p} ${span(of.durations_ms[p])}`).join(", ");
  const total = took(of);
  return (
    <svg class="phases" viewBox="0 0 1000 10" preserveAspectRatio="none" role="img" aria-label={words}>
      <title>{words}</title>
      {drawn.map((p) => {
        const from = x;
        x += (1000 * (of.durations_ms[p] ?? 0)) / Math.max(full, total > full ? total : 0);
        return <rect key={p} class={`phase ${p}`} x={from} width={Math.max(0, x - from)} height="10" />;
      })}
      {total > full && <path class="cut" d="M955 -1L945 11H957L967 -1Z" />}
    </svg>
  );
}

/** What is known of who contributed. */
export interface Shares {
  rounds: { round: number; peers: Pick<HistoryPeer, "node" | "weight" | "contributed" | "sent" | "received">[] }[];
}

/** Who contributed to which round, and with what share. */
export function Contributions({ of, hue }: { of: Shares; hue: (node: string) => number | undefined }) {
  const [all, setAll] = useState(false);
  const rows = contributions(of);
  const shown = all ? rows : rows.slice(0, 24);
  const n = of.rounds.length;
  const whole = n === 0 || of.rounds[n - 1]!.round - of.rounds[0]!.round < n;
  const some = whole ? "" : ` in ${count(n)} rounds`;
  const bytes = rows.some((r) => r.sent !== null || r.received !== null);
  return (
    <>
      <Table
        class="contributions"
        caption="What each peer contributed"
        head={
          <>
            <th>peer</th>
            <th class="wide">
              share in each round, {count(of.rounds[0]?.round ?? 0)} to {count(of.rounds[n - 1]?.round ?? 0)}
            </th>
            <th class="n">rounds</th>
            <th class="n">weight</th>
            <th class="n">share of weight</th>
            {bytes && <th class="n">sent{some}</th>}
            {bytes && <th class="n">received{some}</th>}
          </>
        }
      >
        {shown.map((r) => (
          <tr key={r.node}>
            <th scope="row">{r.node}</th>
            <td class="wide">
              <svg class={`strip hue${hue(r.node) ?? ""}`} viewBox={`0 0 ${n} 1`} preserveAspectRatio="none" role="img" aria-label={`contributed to ${r.rounds} of ${n} rounds`}>
                <rect class="track" width={n} height="1" />
                <path d={r.path} />
              </svg>
            </td>
            <td class="n">
              {count(r.rounds)} <span class="soft">of {count(n)}</span>
            </td>
            <td class="n">{r.weight == null ? "–" : count(r.weight)}</td>
            <td class="n">{r.weight == null ? "–" : `${(100 * r.share).toFixed(1)} %`}</td>
            {bytes && <td class="n">{size(r.sent)}</td>}
            {bytes && <td class="n">{size(r.received)}</td>}
          </tr>
        ))}
      </Table>
      {rows.length > shown.length && (
        <button type="button" onClick={() => setAll(true)}>
          show all {rows.length} peers
        </button>
      )}
    </>
  );
}

export interface Contribution {
  node: string;
  rounds: number;
  weight: number | null;
  share: number;
  sent: number | null;
  received: number | null;
  path: string;
}

const summed = new WeakMap<Shares, Contribution[]>();

/** Sums up who contributed. */
export function contributions(of: Shares): Contribution[] {
  let all = summed.get(of);
  if (!all) summed.set(of, (all = sum(of)));
  return all;
}

/** The path draws spans of rounds with the same share as one. */
function sum(of: Shares): Contribution[] {
  const rows = new Map<string, Contribution & { from: number; at: number; height: number }>();
  let weights = 0;
  const sumOf = (round: Shares["rounds"][number]) => round.peers.reduce((all, p) => all + (p.contributed ? (p.weight ?? 1) : 0), 0) || 1;
  const largest = Math.max(...of.rounds.map((round) => Math.max(0, ...round.peers.filter((p) => p.contributed).map((p) => p.weight ?? 1)) / sumOf(round)), 1e-9);
  const close = (r: { path: string; from: number; at: number; height: number }) => {
    if (r.at > r.from) r.path += `M${r.from} 1V${(1 - r.height).toFixed(3)}H${r.at}V1Z`;
  };
  for (const [i, round] of of.rounds.entries()) {
    const whole = sumOf(round);
    weights += whole;
    for (const p of round.peers) {
      let row = rows.get(p.node);
      if (!row) rows.set(p.node, (row = { node: p.node, rounds: 0, weight: null, share: 0, sent: null, received: null, path: "", from: 0, at: 0, height: 0 }));
      if (p.sent !== null) row.sent = (row.sent ?? 0) + p.sent;
      if (p.received !== null) row.received = (row.received ?? 0) + p.received;
      if (!p.contributed) continue;
      row.rounds++;
      row.weight = p.weight;
      row.share += p.weight ?? 1;
      const height = (p.weight ?? 1) / whole / largest;
      if (row.at !== i || height !== row.height) {
        close(row);
        row.from = i;
        row.height = height;
      }
      row.at = i + 1;
    }
  }
  for (const row of rows.values()) {
    close(row);
    row.share /= weights || 1;
  }
  return [...rows.values()].sort((a, b) => a.node.localeCompare(b.node, "en", { numeric: true }));
}
