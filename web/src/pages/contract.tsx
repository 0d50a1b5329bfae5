// One contract: how far its training is, curves, rounds, contributions, rules.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Chart, hues, type Series } from "../chart";
import type { Explain, History, Rules, Session, Status } from "../documents.gen";
import { count, many, measure, percent, rough, sentence, span } from "../format";
import { Columns } from "../history";
import { Awaited, Bar, Digest, Empty, Facts, Problem, Quorum, Section, Shown, Source, State, Table, Time, useFirst, Words } from "../parts";
import { path } from "../route";
import { runPath, Runs } from "../runs";
import { historyOr } from "../remembered";
import { Contributions, Rounds, took } from "../rounds";
import { contributions, inOrder } from "../shares";
import { useDoc } from "../store";
import { metricName, phaseTone, title } from "../words";

export function ContractPage({ name }: { name: string }) {
  const status = useDoc(`contract/${name}`);
  const explain = useDoc(`explain/${name}`);
  const history = useDoc(`history/${name}`);
  const s = status?.value;
  const { history: h, lacks } = historyOr(history, s);
  const names = useMemo(() => peersOf(s, h).join("\n"), [s, h]);
  const peers = useMemo(() => names.split("\n").filter(Boolean), [names]); // the same list as long as it has the same names
  const [chosen, setChosen] = useState<(string | null)[]>([]); // by colour, where there are more peers than colours
  const hue = useCallback(
    (node: string) => {
      const i = peers.length <= hues ? peers.indexOf(node) : chosen.indexOf(node);
      return i < 0 ? undefined : i;
    },
    [peers, chosen],
  );
  const [known, going] = [!lacks, !lacks && !s?.over];
  // Each part is made anew only when what it shows has changed.
  const called = metricName(h, s);
  const curves = useMemo(() => h && <Curves of={h} metric={called} peers={peers} hue={hue} known={known} />, [h, called, peers, hue, known]);
  const sessions = useMemo(() => s && <Peers of={s} history={h} hue={hue} />, [s, h, hue]);
  const rounds = useMemo(() => h && <Rounds of={h} metric={called} going={going} />, [h, called, going]);
  const shares = useMemo(() => h && <Contributions of={h} hue={hue} />, [h, hue]);
  const terms = useMemo(() => s && <Terms of={s} />, [s]);
  return (
    <>
      <ContractHead name={name} status={s} here="training" earlier={h?.earlier} />
      <Reset status={s} history={h} />
      <Shown doc={status} what={`contract ${name}`}>
        {(s) => (
          <>
            <Quorum of={s.no_quorum} />
            <Section title={s.over ? "How it ended" : s.stuck ? "What it waits for" : "Where it is"}>
              <Shown doc={explain} what="an explanation">
                {(e) => <Explanation of={e} status={s} />}
              </Shown>
            </Section>
          </>
        )}
      </Shown>
      {s && (
        <>
          <Section title="Curves" aside={<Source of="reported" />}>
            {lacks && <Problem tone="warn" error={lacks.error} remedy={lacks.remedy} />}
            {peers.length > hues && <Choose peers={peers} chosen={chosen} set={setChosen} />}
            {h?.hidden && <p class="soft">{sentence(h.hidden)}</p>}
            {curves ?? <Awaited what="curves" />}
          </Section>
          <Section title="Peers" aside={<Source of="reported" />}>
            {sessions}
          </Section>
          <Section
            title="Rounds"
            aside={
              <>
                digest, members: <Source of="recorded" /> times, bytes, loss, metric: <Source of="reported" />
              </>
            }
          >
            {!h ? (
              <Awaited what="rounds" />
            ) : h.rounds.length === 0 ? (
              <Empty title="No round was committed yet.">
                <p>The first one begins when enough peers are ready.</p>
              </Empty>
            ) : (
              rounds
            )}
          </Section>
          {h && h.rounds.length > 0 && (
            <Section
              title="Who contributed"
              aside={
                <>
                  members, weights: <Source of="recorded" /> bytes: <Source of="reported" />
                </>
              }
            >
              {shares}
            </Section>
          )}
          <Section title="Rules and terms">
            {terms}
          </Section>
        </>
      )}
    </>
  );
}

/** The head of a contract's two pages. */
export function ContractHead({ name, status: s, here, run = 0, earlier = [] }: { name: string; status: Status | undefined; here: "training" | "models"; run?: number; earlier?: number[] | undefined }) {
  return (
    <header class="title">
      <p class="crumbs">
        <a href={path("contracts")}>Contracts</a>
      </p>
      <h1>{name}</h1>
      {s && (
        <p class="lead">
          <State tone={phaseTone(s.phase, s.stuck)}>{s.phase}</State>
          {s.committed ? (
            <>
              {" "}
              round {count(s.committed.round)} of run {s.run}, committed <Time at={s.committed.committed} />
            </>
          ) : (
            <> no round yet in run {s.run}</>
          )}
        </p>
      )}
      <div class="tabs">
      <nav class="tabs" aria-label={`pages of ${name}`}>
        <a href={runPath("contract", name, run)} aria-current={here === "training" ? "page" : undefined}>
          Training
        </a>
        <a href={runPath("models", name, run)} aria-current={here === "models" ? "page" : undefined}>
          Models
        </a>
      </nav>
      {s && <Runs name={name} now={s.run} run={run} earlier={earlier} page={here === "models" ? "models" : "contract"} />}
      </div>
    </header>
  );
}

/** Says that the contract began anew while it was shown: by a reset where the SNs keep the run before, or else as another one of its name. */
function Reset({ status, history }: { status: Status | undefined; history: History | undefined }) {
  const first = useRef<number | undefined>(undefined);
  const [from, setFrom] = useState<number>();
  useEffect(() => {
    if (!status) return;
    if (first.current !== undefined && status.run > first.current) setFrom(first.current);
    first.current = status.run;
  }, [status?.run]);
  if (!from || !status || (history && history.run !== status.run)) return null;
  if (!history?.earlier.includes(from)) {
    return (
      <div class="problem warn" role="status">
        <p>The contract began anew while you looked at it: this is run {status.run}. The ledger has what was before.</p>
      </div>
    );
  }
  return (
    <div class="problem warn" role="status">
      <p>
        The contract was reset while you looked at it: this is run {status.run}, that was <a href={runPath("contract", status.name, from)}>run {from}</a>. Its ledger records stay.
      </p>
    </div>
  );
}

/** Whether a line is about how the swarm was set up, with which a training is in order. */
const advice = (line: string) => / share the SPIFFE ID /.test(line);

function Explanation({ of, status }: { of: Explain; status: Status }) {
  const todo = of.explanation.filter((l) => l.startsWith("to do: "));
  const said = of.explanation.filter((l) => !l.startsWith("to do: "));
  const warned = new Set(of.training_warnings.map((w) => w.text));
  return (
    <div class={`explain ${status.stuck ? "warn" : ""}`}>
      <ul>
        {said.filter((l) => !warned.has(l) && !advice(l)).map((l) => (
          <li key={l}>{l}</li>
        ))}
      </ul>
      {said.filter(advice).map((l) => (
        <p key={l} class="soft">
          <State tone="off">advice</State> <Words text={l} />
        </p>
      ))}
      {of.training_warnings.map((w) => (
        <p key={w.reason + w.node}>
          <State tone={w.advice ? "off" : "warn"}>{w.advice ? "advice" : "warning"}</State> {w.text}
        </p>
      ))}
      {todo.map((l) => (
        <p key={l}>
          <b>To do:</b> <Words text={l.slice(7)} />
        </p>
      ))}
    </div>
  );
}

export function peersOf(s: Status | undefined, h: History | undefined): string[] {
  const all = new Set(s?.sessions.map((x) => x.node));
  if (h) for (const c of contributions(h).rows) all.add(c.node);
  return [...all].sort(inOrder);
}

function Peers({ of: s, history, hue }: { of: Status; history: History | undefined; hue: (node: string) => number | undefined }) {
  const gave = useMemo(() => new Map(history ? contributions(history).rows.map((c) => [c.node, c]) : []), [history]);
  const [shown, more] = useFirst(s.sessions);
  const notes = s.sessions.some((x) => note(x, s.sessions) !== "–");
  const metric = metricName(history, s);
  if (s.sessions.length === 0) {
    return (
      <Empty title="No program takes part yet.">
        <p>Start the program beside each SL; each opens a session, and the first round begins when {s.min_peers ? many(s.min_peers, "peer") : "enough peers"} are ready.</p>
      </Empty>
    );
  }
  return (
    <>
    <Table
      class="peers"
      caption="Peers of this contract"
      head={
        <>
          <th>peer</th>
          <th>state</th>
          <th class="n">round</th>
          <th>epochs</th>
          <th class="n">time left</th>
          <th class="n">loss</th>
          <th class="n">{metric}</th>
          <th class="n">weight</th>
          <th class="n">contributed to</th>
          <th>isolation</th>
          {notes && <th>note</th>}
        </>
      }
    >
      {shown.map((x) => {
        const h = hue(x.node);
        return (
          <tr key={x.id}>
            <th scope="row">
              <i class={h === undefined ? "swatch" : `swatch hue${h}`} aria-hidden="true" />
              <a href={path("node", x.node)}>{x.node}</a>
            </th>
            <td>
              <SessionState of={x} />
            </td>
            <td class="n">{count(x.round)}</td>
            <td>
              <Epochs of={x} />
            </td>
            <td class="n">{left(x)}</td>
            <td class="n">{measure(x.loss)}</td>
            <td class="n">
              {measure(x.metric)} {x.metric_name && x.metric_name !== metric && <span class="soft">{x.metric_name}</span>}
            </td>
            <td class="n">{count(x.weight)}</td>
            <td class="n">{gave.has(x.node) && !earlier(x, s.sessions) ? contributed(gave.get(x.node)!.rounds, history!) : "–"}</td>
            <td>{x.isolation || "–"}</td>
            {notes && <td>{note(x, s.sessions)}</td>}
          </tr>
        );
      })}
    </Table>
    {more}
    </>
  );
}

function SessionState({ of: x }: { of: Session }) {
  if (x.state === "ended") {
    const good = x.end_reason === "finished";
    return <State tone={good ? "good" : x.end_reason === "left" ? "off" : "bad"}>{x.end_reason || "ended"}</State>;
  }
  if (!x.live) return <State tone="bad">node is dead</State>;
  return <State tone={x.state === "closed" ? "good" : "busy"}>{x.state === "closed" ? "waits for the final model" : x.phase || x.state}</State>;
}

function Epochs({ of: x }: { of: Session }) {
  if (!x.total_epochs) return <>{x.epochs_done ? `${count(x.epochs_done)} done` : "–"}</>;
  return (
    <span class="epochs">
      <Bar share={x.epochs_done / x.total_epochs} label={`${x.epochs_done} of ${x.total_epochs} epochs`} />
      <span>
        {count(x.epochs_done)} <span class="soft">of {count(x.total_epochs)}</span>
      </span>
    </span>
  );
}

/** How long a program still needs. */
function left(x: Session) {
  if (x.left_seconds == null) return <span class="soft">–</span>;
  return <span title="at the pace of the newest 32 rounds that the leader remembers">about {rough(x.left_seconds * 1000)}</span>;
}

/** Of a history that has not all rounds a share is said, not a number. */
const contributed = (rounds: number, h: History) => (h.thinned > 0 ? `${percent(rounds / h.rounds.length)} of rounds` : many(rounds, "round"));

/** Whether a node has a later session than this one. */
const earlier = (x: Session, all: Session[]) => x.state === "ended" && all.some((y) => y.node === x.node && y !== x && (y.state !== "ended" || y.round > x.round));

function note(x: Session, all: Session[]): string {
  return [earlier(x, all) && "an earlier session", x.ranks > 0 && many(x.ranks, "rank"), x.no_shard && "owns no part of a merge", x.state === "ended" && x.exit_code !== 0 && `exit code ${x.exit_code}`].filter(Boolean).join(", ") || "–";
}

/** Lets some of many peers be told apart by colour. */
function Choose({ peers, chosen, set }: { peers: string[]; chosen: (string | null)[]; set: (chosen: (string | null)[]) => void }) {
  const free = chosen.indexOf(null) >= 0 ? chosen.indexOf(null) : chosen.length;
  const add = (node: string) => {
    const next = [...chosen];
    next[free] = node;
    set(next);
  };
  return (
    <p class="choose">
      <label>
        in colour{" "}
        <select value="" disabled={free >= hues} onChange={(e) => add(e.currentTarget.value)}>
          <option value="">{free >= hues ? `${hues} at most` : "choose a peer"}</option>
          {peers.filter((p) => !chosen.includes(p)).map((p) => (
            <option key={p}>{p}</option>
          ))}
        </select>
      </label>
      {chosen.map(
        (node, i) =>
          node && (
            <button type="button" class="quiet" key={node} aria-label={`${node}: no colour any more`} onClick={() => set(chosen.map((x) => (x === node ? null : x)))}>
              <i class={`swatch hue${i}`} aria-hidden="true" />
              {node} ×
            </button>
          ),
      )}
    </p>
  );
}

export function Curves({ of: h, metric: called, peers, hue, known }: { of: History; metric: string; peers: string[]; hue: (node: string) => number | undefined; known: boolean }) {
  const kept = useRef<Columns>(null);
  const columns = (kept.current ??= new Columns(took));
  const { rounds, loss, metric, times } = useMemo(() => {
    columns.take(h.rounds);
    const drawn = [...peers].sort((a, b) => Number(hue(a) !== undefined) - Number(hue(b) !== undefined)); // those in colour above the others
    const of = (what: "loss" | "metric"): Series[] => [
      ...drawn.map((node) => ({ name: node, hue: hue(node), values: columns.peers.get(node)?.[what] ?? [] })).filter((s) => s.values.some((v) => v != null)),
      { name: "merged model", main: true, values: columns.main[what] }, // above the others
    ];
    return { rounds: columns.rounds, loss: of("loss"), metric: of("metric"), times: [{ name: "took", main: true, values: columns.took }] as Series[] };
  }, [h, peers, hue]);
  if (h.rounds.length === 0) return <Empty title="The curves begin with the first round." />;
  const none = known ? "The programs have reported none. A callback that is given validation data measures the merged model." : "What programs have reported of past rounds is not known.";
  return (
    <div class="charts">
      <Chart title="Loss" rounds={rounds} series={loss} format={measure} empty={none} />
      <Chart title={title(called)} rounds={rounds} series={metric} format={measure} empty={none} />
      <Chart title="Time of a round" rounds={rounds} series={times} format={span} log ticks={span} empty={known ? "The curve begins with the first round." : "How long past rounds took is not known, their exchange apart."} />
    </div>
  );
}

function Terms({ of: s }: { of: Status }) {
  const r: Partial<Rules> = s.rules ?? {};
  const list = (all: string[] | undefined) => (all?.length ? all.join(", ") : null);
  return (
    <>
      {!s.rules && <p class="soft">No rules were set: the first program's terms hold for all. {!s.over && <code>swarmctl create contract {s.name} …</code>}</p>}
      <Facts
        of={[
          ["merge method", r.method ? `${r.method} (rule)` : s.method || "that of the first program"],
          ["least peers of a round", r.min_peers ? `${r.min_peers} (rule)` : s.min_peers || null],
          ["expected peers", r.expected_peers ? `${r.expected_peers} (rule)` : s.expected_peers || null],
          ["required peers", list(r.required)],
          ["who may take part", s.rules ? (list(r.allow) ?? "every SL") : null],
          ["who owns parts of the model", list(r.owners)],
          ["who sees each peer's curves", s.rules ? (list(r.curves) ?? "all who may ask") : null],
          ["witnesses of each part", r.witnesses || null],
          ["least share of weight", r.min_weight_share ? percent(r.min_weight_share) : null],
          ["most weight of a peer", r.weight_cap ? percent(r.weight_cap) : null],
          ["models may leave the swarm", s.rules ? (r.export ? "yes, by swarmctl get model" : "no") : null],
          ["values that are no numbers", r.non_finite || null],
          ["after a program's end", r.checkin_default || null],
          ["waits for the rest of a round", r.quorum_wait ? `${r.quorum_wait} s` : null],
          ["repeats a stalled merge for", r.stall_grace ? `${r.stall_grace} s` : null],
          ["waits for least peers", r.min_peers_timeout ? `${r.min_peers_timeout} s` : null],
          ["model's layout", s.layout_digest ? <Digest of={s.layout_digest} /> : null],
          ["leader that says this", s.leader],
          ["rounds given up", s.skips ? `${s.skips.count}, the last one round ${s.skips.round}: ${s.skips.reason}` : null],
          ["lost model", s.lost_model ? `of round ${s.lost_model.round}; training went back to round ${s.lost_model.resumed_round}` : null],
          ["adopted model", s.adopted_round ? `of round ${s.adopted_round.proven_round}, which ${s.adopted_round.signed} nodes have signed` : null],
          [
            "operator",
            s.halt && (
              <>
                {s.halt.by} {s.halt.ends ? "ends" : "has paused"} the training, <Time at={s.halt.at} />
              </>
            ),
          ],
        ]}
      />
    </>
  );
}
