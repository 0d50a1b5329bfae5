// Rounds as a timeline: how long each part took, attempts and why one failed, and who contributed.
import { Component } from "preact";
import { useState } from "preact/hooks";
import type { Failed, History, HistoryRound } from "./documents.gen";
import { count, many, measure, size, span } from "./format";
import { Pager, usePages } from "./paged";
import { Cut, Digest, Names, Table, Time } from "./parts";
import { contributions, type Shares } from "./shares";

export const phases = ["waiting", "training", "exchange", "commit"] as const;
const drawn = ["training", "waiting", "exchange", "commit"] as const; // in the order of time

/** A round of which it is known how long its phases took. */
export type Timed = Pick<HistoryRound, "durations_ms">;

/** How long what is known of a round took. */
const known = (r: Timed) => phases.reduce((sum, p) => sum + (r.durations_ms[p] ?? 0), 0);

/** How long a round took; null where no more than its exchange is known. */
export const took = (r: Timed) => (r.durations_ms.waiting === null && r.durations_ms.training === null ? null : known(r));

export function Rounds({ of, metric: called, going }: { of: History; metric: string; going: boolean }) {
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
        <PhaseKey />
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
            <th class="n">{called}</th>
            <th class="n">sent</th>
            <th>merged models of</th>
            <th>model</th>
            <th>committed</th>
          </>
        }
      >
        {shown.map((r) => (
          <Round key={r.round} of={r} full={full} loss={loss} metric={metric} />
        ))}
      </Table>
      </div>
      <PlainMeans of={of.rounds} />
      {of.thinned > 0 && <p class="soft small">{many(of.thinned, "round")} between those shown {of.thinned === 1 ? "is" : "are"} left out. The ledger has all.</p>}
    </div>
  );
}

interface RoundProps {
  of: HistoryRound;
  full: number;
  loss: number;
  metric: number;
}

/** A row of the timeline. It is made anew only for another: most rounds stay as they are while others come. */
class Round extends Component<RoundProps> {
  override shouldComponentUpdate(next: RoundProps): boolean {
    const { of, full, loss, metric } = this.props;
    return next.of !== of || next.full !== full || (next.loss !== loss && of.loss === null) || (next.metric !== metric && of.metric === null);
  }

  override render({ of: r, full, loss, metric }: RoundProps) {
    return (
      <tr>
        <th scope="row" class="n">
          {count(r.round)}
        </th>
        <td class="wide">
          <Phases of={r} full={full} />
          <FailedAttempts of={r.failed} />
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
    );
  }
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

/** Which colour stands for which phase. */
export function PhaseKey() {
  return (
    <p class="key small soft">
      {drawn.map((p) => (
        <span key={p}>
          <i class={`swatch phase ${p}`} aria-hidden="true" />
          {p}
        </span>
      ))}
    </p>
  );
}

/** Why attempts of a round failed before that which succeeded. */
export function FailedAttempts({ of }: { of: Pick<Failed, "attempt" | "blamed" | "reason">[] }) {
  return (
    <>
      {of.map((f) => (
        <p class="failed small" key={f.attempt}>
          attempt {f.attempt} failed{f.blamed && ` by ${f.blamed}`}: {f.reason}
        </p>
      ))}
    </>
  );
}

/** The length of a whole bar: longer than most, so that one long wait does not hide all others. */
export function scale(rounds: Timed[]): number {
  const all = rounds.map(known).sort((a, b) => a - b);
  const most = all[Math.floor(0.88 * (all.length - 1))] ?? 1;
  const max = all.at(-1) ?? 1;
  return Math.max(1, max <= 2 * most ? max : 1.25 * most);
}

export function Phases({ of, full }: { of: Timed; full: number }) {
  let x = 0;
  const words = drawn.map((p) => `${p} ${span(of.durations_ms[p])}`).join(", ");
  const total = known(of);
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

/** Who contributed to which round, and with what share. */
export function Contributions({ of, hue }: { of: Shares; hue: (node: string) => number | undefined }) {
  const [all, setAll] = useState(false);
  const { rows, largest } = contributions(of);
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
              <svg class={`strip hue${hue(r.node) ?? ""}`} viewBox={`0 ${-largest} ${n} ${largest}`} preserveAspectRatio="none" role="img" aria-label={`contributed to ${r.rounds} of ${n} rounds`}>
                <rect class="track" y={-largest} width={n} height={largest} />
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
      <Cut shown={shown.length} all={rows.length} />
    </>
  );
}
