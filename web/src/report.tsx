// report.html of a local run: what the pages of the dashboard are made of, with data that stand in the file.
import { render } from "preact";
import { useMemo, useState } from "preact/hooks";
import { Chart, hues, type Series } from "./chart";
import { count, many, measure, percent, short, size, span } from "./format";
import { Digest, Empty, Facts, Problem, Section, State, Table, useFirst, Words } from "./parts";
import type { Peer, Report, Round } from "./report.gen";
import { Pager } from "./paged";
import { Contributions, FailedAttempts, PhaseKey, Phases, scale, type Timed } from "./rounds";
import type { Shares } from "./shares";
import "./style.css";
import "./report.css";

const whole = (s: string) => s === "finished";

function ReportPage({ of: r }: { of: Report }) {
  const { summary: s } = r;
  const warned = s.warnings.filter((w) => !w.advice);
  const advice = s.warnings.filter((w) => w.advice);
  const shares = useMemo(() => sharesOf(r.rounds), [r]);
  const hue = (name: string) => {
    const i = s.peers.length <= hues ? s.peers.findIndex((p) => p.name === name) : -1;
    return i < 0 ? undefined : i;
  };
  return (
    <main>
      <header class="title">
        <p class="crumbs soft">Report of a swarm training</p>
        <h1>{r.title}</h1>
        <p class="lead">{r.headline}</p>
      </header>
      {s.reason && (
        <div id="reason">
          <Problem tone={s.state === "interrupted" ? "warn" : "bad"} error={`${whole(s.state) ? "Not all programs ended well" : s.state === "interrupted" ? "Interrupted" : "Failed"}: ${s.reason}`} />
        </div>
      )}
      {warned.length > 0 && (
        <div class="problem warn" id="warnings" role="group" aria-label="Warnings">
          <p>
            <b>{many(warned.length, "warning")}</b>
          </p>
          <ul>
            {warned.map((w) => (
              <li key={w.reason + w.peer + w.text}>
                <Words text={w.text} />
              </li>
            ))}
          </ul>
        </div>
      )}
      <Result of={r} />
      <ul class="tiles" aria-label="In short">
        <li>
          <b>{count(s.peers.length)}</b> {s.peers.length === 1 ? "peer" : "peers"}
        </li>
        <li>
          <b>{count(s.rounds)}</b> {s.rounds === 1 ? "round" : "rounds"}
        </li>
        <li>
          <b>{span(1000 * s.wall_seconds)}</b> from start to end
        </li>
        {r.final_models && (
          <li>
            <State tone={({ equal: "good", different: "bad" } as const)[r.final_models] ?? "off"}>
              <b>{r.final_models}</b>
            </State>{" "}
            final models{r.final_models === "equal" && ", byte for byte"}
          </li>
        )}
      </ul>
      <Section title="Peers">
        <Peers of={r} hue={hue} />
      </Section>
      <Section title="Training">
        <Curves of={r} hue={hue} />
      </Section>
      {shares.rounds.some((x) => x.peers.some((p) => p.contributed)) && (
        <Section title="Who contributed to which round" note="The height is a peer's share of the merged model; a gap is a round that it took no part in.">
          <Contributions of={shares} hue={hue} />
        </Section>
      )}
      <Cost of={s.peers} />
      <Section title="Rounds">
        <RoundsTable of={r} />
      </Section>
      {advice.length > 0 && (
        <Section title="What could be better" id="advice">
          <ul class="explain">
            {advice.map((w) => (
              <li key={w.reason + w.peer + w.text}>
                <Words text={w.text} />
              </li>
            ))}
          </ul>
        </Section>
      )}
      <Section title="How it was made" id="made">
        <Facts of={r.facts.map((f) => [f.name, f.code && f.value.length > 40 ? <Digest of={f.value} whole /> : f.code ? <code>{f.value}</code> : f.value])} />
      </Section>
    </main>
  );
}

interface Compared {
  name: string;
  swarm: boolean;
  value: number;
}

/** The final values of the metric. Where all peers measured the same in the swarm, as on a common test set, that is one, first. */
function compared(peers: Peer[]): Compared[] {
  const swarm = peers.filter((p) => p.swarm_accuracy !== null && !p.failed).map((p) => ({ name: `${p.name} in the swarm`, swarm: true, value: p.swarm_accuracy! }));
  const alone = peers.filter((p) => p.local_accuracy !== null).map((p) => ({ name: `${p.name} alone`, swarm: false, value: p.local_accuracy! }));
  const one = swarm.length > 1 && swarm.every((x) => Math.abs(x.value - swarm[0]!.value) < 1e-9);
  return [...(one ? [{ ...swarm[0]!, name: "the swarm's model" }] : swarm), ...alone];
}

/** The swarm against each peer alone. Bars say nothing of values below zero. */
function Result({ of: r }: { of: Report }) {
  const all = compared(r.summary.peers);
  const [shown, more] = useFirst(all);
  if (all.length === 0 || all.some((x) => x.value < 0)) return null;
  const most = Math.max(1, ...all.map((x) => x.value));
  return (
    <Section title={`${r.metric_title}${r.baseline ? ": the swarm against each peer alone" : ""}`} id="result">
      <dl class="bars">
        {shown.map((x) => (
          <div key={x.name} class={x.swarm ? "swarm" : "alone"}>
            <dt>{x.name}</dt>
            <dd>
              <Lengths of={[[x.swarm ? "swarm" : "alone", x.value / most]]} />
            </dd>
            <dd class="n">{measure(x.value)}</dd>
          </div>
        ))}
      </dl>
      {more}
      {!r.baseline && (
        <p class="soft small">
          With <code>--baseline</code> a run shows beside it what each peer reaches alone.
        </p>
      )}
    </Section>
  );
}

/** Lengths in a row, in parts of the whole; the words beside them say the same. */
function Lengths({ of }: { of: [name: string, share: number][] }) {
  let x = 0;
  return (
    <svg class="lengths" viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">
      <rect class="track" width="1000" height="10" />
      {of.map(([name, share]) => {
        const from = x;
        x += 1000 * Math.min(1, Math.max(0, share));
        return <rect key={name} class={name} x={from} width={x - from} height="10" />;
      })}
    </svg>
  );
}

function Peers({ of: r, hue }: { of: Report; hue: (name: string) => number | undefined }) {
  const { summary: s, baseline, metric_title: metric } = r;
  const samples = s.peers.some((p) => p.data_samples !== null);
  const [shown, more] = useFirst(s.peers);
  if (s.peers.length === 0) return <Empty title="No program took part." />;
  return (
    <>
      <Table
        caption="Peers of this run"
        head={
          <>
            <th>peer</th>
            {baseline && <th class="n">{metric} alone</th>}
            <th class="n">
              {metric}
              {baseline && " in the swarm"}
            </th>
            <th class="n">loss</th>
            {samples && <th class="n">samples</th>}
            <th class="n">epochs</th>
            <th class="n">last round</th>
            <th class="n">rounds contributed</th>
            <th class="n">weight</th>
            <th>final model</th>
          </>
        }
      >
        {shown.map((p) => (
          <tr key={p.name}>
            <th scope="row">
              <i class={hue(p.name) === undefined ? "swatch" : `swatch hue${hue(p.name)}`} aria-hidden="true" />
              {p.name}
            </th>
            {baseline && <td class="n">{measure(p.local_accuracy)}</td>}
            <td class="n">{measure(p.swarm_accuracy)}</td>
            <td class="n">{measure(p.swarm_loss)}</td>
            {samples && <td class="n">{known(p.data_samples)}</td>}
            <td class="n">{count(p.epochs)}</td>
            <td class="n">{count(p.rounds)}</td>
            <td class="n">{known(p.contributed)}</td>
            <td class="n">{known(p.weight)}</td>
            <td>{p.failed ? <State tone="bad">failed</State> : <Model of={p} />}</td>
          </tr>
        ))}
      </Table>
      {more}
    </>
  );
}

const known = (n: number | null) => (n === null ? "–" : count(n));

/** A final model by the swarm's digest; one that is not told has the SHA-256 of its parameters. */
function Model({ of: p }: { of: Peer }) {
  if (p.model_digest || !p.model_sha256) return <Digest of={p.model_digest ?? ""} />;
  return <code title={p.model_sha256}>sha256:{short(p.model_sha256)}</code>;
}

function Curves({ of: r, hue }: { of: Report; hue: (name: string) => number | undefined }) {
  if (r.charts.length === 0) {
    return (
      <Empty title="The program reported neither loss nor metric.">
        <p>A callback that is given validation data, or a function that evaluates, reports both.</p>
      </Empty>
    );
  }
  return (
    <>
      <div class="charts two">
        {r.charts.map((c) => (
          <Chart
            key={c.title}
            title={c.title}
            unit={r.axis}
            rounds={c.x}
            series={c.curves.map((x): Series => (x.name ? { name: x.name, hue: hue(x.name), dashed: true, values: x.values } : { name: "merged model", main: true, values: x.values }))}
            format={measure}
            empty="Nothing was measured."
          />
        ))}
      </div>
      <p class="soft small under">
        Over {r.axis}s. Dashed: what each peer's own model reached {r.baseline ? "alone" : "between merges"}.
        {r.charts.some((c) => c.spread) && " The merged model is one, but peers measured it on data of their own: the curve is their mean."}
      </p>
    </>
  );
}

/** Who took part in which round, as the contributions are drawn. Where weights are not known, all count alike. */
function sharesOf(rounds: Round[]): Shares {
  return {
    rounds: rounds.map((r) => ({
      round: r.round,
      peers: r.participants.map((node, i) => {
        const weight = r.weights.length === r.participants.length ? r.weights[i]! : null;
        return { node, weight, contributed: weight !== 0, sent: null, received: null };
      }),
    })),
  };
}

/** For how much of its training a peer stood still for merges, and what it sent. */
function Cost({ of: peers }: { of: Peer[] }) {
  const timed = peers.filter((p) => p.train_seconds && p.merge_seconds !== null);
  const longest = Math.max(...timed.map((p) => p.train_seconds!), 1e-9);
  const [shown, more] = useFirst(timed);
  if (timed.length === 0) return null;
  return (
    <Section
      title="Time and traffic"
      id="cost"
      aside={
        <span class="key small">
          <span>
            <i class="swatch phase training" aria-hidden="true" />
            the program trained
          </span>
          <span>
            <i class="swatch phase waiting" aria-hidden="true" />
            it stood still for merges, which includes waiting for slower peers
          </span>
        </span>
      }
    >
      <Table
        caption="Time and traffic of each peer"
        head={
          <>
            <th>peer</th>
            <th class="wide">its training</th>
            <th class="n">training, merges included</th>
            <th class="n">of it standing still for merges</th>
            <th class="n">in merges</th>
            <th class="n">sent in merges</th>
            <th class="n">received in merges</th>
          </>
        }
      >
        {shown.map((p) => (
          <tr key={p.name}>
            <th scope="row">{p.name}</th>
            <td class="wide">
              <Lengths
                of={[
                  ["phase training", (p.train_seconds! - p.merge_seconds!) / longest],
                  ["phase waiting", p.merge_seconds! / longest],
                ]}
              />
            </td>
            <td class="n">{span(1000 * p.train_seconds!)}</td>
            <td class="n">{span(1000 * p.merge_seconds!)}</td>
            <td class="n">{percent(p.merge_seconds! / p.train_seconds!)}</td>
            <td class="n">{size(p.sent_bytes)}</td>
            <td class="n">{size(p.received_bytes)}</td>
          </tr>
        ))}
      </Table>
      {more}
    </Section>
  );
}

const onScreen = 25;
const onPaper = 500;

/** A page of the rounds, newest first; on paper more of them. */
function RoundsTable({ of: r }: { of: Report }) {
  const [from, setFrom] = useState(0);
  const all = useMemo(() => [...r.rounds].reverse(), [r]);
  const shown = Math.min(onScreen, all.length - from);
  if (all.length === 0) return <Empty title="No round was committed." />;
  const weights = all.some((x) => new Set(x.weights).size > 1);
  const timed = all.filter(isTimed);
  const full = scale(timed);
  const row = (x: Round, paper: boolean) => (
    <tr key={x.round} class={paper ? "paper" : undefined}>
      <th scope="row" class="n">
        {count(x.round)}
        {x.final && <span class="soft"> (final)</span>}
      </th>
      {timed.length > 0 && (
        <td class="wide">
          {isTimed(x) ? <Phases of={x} full={full} /> : "–"}
          <FailedAttempts of={x.failed ?? []} />
        </td>
      )}
      <td class="words">{parts(x).join(", ") || "–"}</td>
      <td class="n">{x.seconds ? span(1000 * x.seconds) : "–"}</td>
      <td class="n">{measure(x.loss)}</td>
      <td class="n">{measure(x.metric)}</td>
      <td class="n">{x.attempt || "–"}</td>
      <td>
        <Digest of={x.digest} />
      </td>
    </tr>
  );
  return (
    <div class="rounds">
      {(timed.length > 0 || all.length > onScreen) && (
        <div class="bar-tools">
          {timed.length > 0 && <PhaseKey />}
          {all.length > onScreen && (
            <div class="pager">
              <Pager first={from} shown={shown} all={all.length} go={setFrom} />
            </div>
          )}
        </div>
      )}
      <Table
        caption="Rounds, newest first"
        head={
          <>
            <th class="n">round</th>
            {timed.length > 0 && <th class="wide">time by phase</th>}
            <th>participants{weights && " and weights"}</th>
            <th class="n">took</th>
            <th class="n">loss</th>
            <th class="n">{r.metric_title}</th>
            <th class="n">attempt</th>
            <th>model</th>
          </>
        }
      >
        {all.slice(0, from).slice(-onPaper).map((x) => row(x, true))}
        {all.slice(from, from + shown).map((x) => row(x, false))}
        {all.slice(from + shown, onPaper).map((x) => row(x, true))}
      </Table>
      {all.length > onPaper && <p class="paper soft small">{many(onPaper, "round")} of {count(all.length)} are on paper; the screen has all.</p>}
      {timed.length > 0 && timed.length < all.length && (
        <p class="soft small">
          How long phases took, and which attempts failed, is known of {many(timed.length, "round")} of {count(all.length)}: SNs keep the newest, and older ones evenly.
        </p>
      )}
    </div>
  );
}

const isTimed = (x: Round): x is Round & Timed => !!x.durations_ms;

/** The participants of a round, each with its weight where weights are known and differ. */
function parts(x: Round): string[] {
  if (x.weights.length !== x.participants.length || new Set(x.weights).size < 2) return x.participants;
  return x.participants.map((name, i) => `${name} (${count(x.weights[i]!)})`);
}

const report = JSON.parse(document.getElementById("data")!.textContent!) as Report;
document.title = `${report.title}, a swarm of ${many(report.summary.peers.length, "peer")}`;
const root = document.getElementById("app")!;
root.textContent = "";
render(<ReportPage of={report} />, root);
