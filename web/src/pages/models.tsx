// The models of a contract: who made each, and that the ledger proves it.
import { Fragment } from "preact";
import { useState } from "preact/hooks";
import type { Acted, HistoryRound, Model, Models, Proof, Status } from "../documents.gen";
import { count, many, sentence } from "../format";
import { Awaited, Digest, Empty, Facts, Names, Problem, Section, Shown, Source, State, Table, Time } from "../parts";
import { awaitedFrom, Merged, PlainMeans } from "../rounds";
import { Pager, usePages } from "../paged";
import { ask, fetchModel, useDoc, type Doc } from "../store";
import { metricName } from "../words";
import { historyOr } from "../remembered";
import { ContractHead } from "./contract";

export function ModelsPage({ name }: { name: string }) {
  const status = useDoc(`contract/${name}`);
  const models = useDoc(`models/${name}`);
  const { history, lacks } = historyOr(useDoc(`history/${name}`), status?.value);
  return (
    <>
      <ContractHead name={name} status={status?.value} here="models" earlier={history?.earlier} />
      <Shown doc={models} what="models">
        {(m) => (
          <>
            <Leaving of={m} name={name} />
            {m.note && <p class="note">{sentence(m.note)}</p>}
            <Section title="Committed models" note="newest first; verify reads in the ledger who made one" aside={<>digest, members, record: <Source of="recorded" /> loss, metric, times: <Source of="reported" /></>}>
              {lacks && <Problem tone="warn" error={lacks.error} remedy={lacks.remedy} />}
              {history ? <List key={history.run} name={name} models={m} rounds={history.rounds} thinned={history.thinned} status={status?.value} going={!lacks && !status?.value?.over} /> : <Awaited what="rounds" />}
            </Section>
          </>
        )}
      </Shown>
    </>
  );
}

function Leaving({ of: m, name }: { of: Models; name: string }) {
  return (
    <p class="note">
      {m.export ? (
        <>
          The contract lets models leave the swarm: as safetensors by the button beside one that nodes still hold, or by <code>swarmctl get model {name}</code>. The ledger records who has done so.
        </>
      ) : (
        <>
          The contract lets no model leave the swarm. Its rules say so: <code>swarmctl create contract {name} --export</code> would allow it, while no program is open.
        </>
      )}
    </p>
  );
}

/** The models of the run now, or without any of an earlier one. */
export function List({ name, run = 0, models, rounds, thinned, status, going }: { name: string; run?: number; models?: Models; rounds: HistoryRound[]; thinned: number; status?: Status | undefined; going: boolean }) {
  const [open, setOpen] = useState<number | null>(null);
  const [fetched, setFetched] = useState<(Acted & { round: number }) | undefined>();
  const known = new Set(rounds.map((r) => r.round));
  const there = models?.models ?? [];
  const all = [...rounds, ...there.filter((m) => !known.has(m.round)).map(unknown)].sort((a, b) => b.round - a.round);
  const fetchOne = async (m: Model) => {
    setFetched({ round: m.round });
    setFetched({ round: m.round, ...(await fetchModel(name, m.round, m.digest)) });
  };
  const fetching = fetched && !fetched.said && !fetched.error;
  const pages = usePages(all);
  const { shown } = pages;
  if (all.length === 0) {
    return (
      <Empty title="There is no model yet.">
        <p>Each round that is committed makes one.</p>
      </Empty>
    );
  }
  const held = new Map(there.map((m) => [m.round, m]));
  const [loss, metric] = (["loss", "metric"] as const).map((what) => (going ? awaitedFrom(rounds, what) : Infinity)) as [number, number];
  const finalRound = status?.over ? status.committed?.round : undefined;
  return (
    <div class="rounds">
      <div class="bar-tools">
        <p class="soft small">
          {many(all.length, "model")}
          {models && `, ${held.size} of them still held by nodes`}
          {thinned > 0 && `; ${count(thinned)} more are in the ledger, and not listed`}
        </p>
        <div class="pager">
          <Pager first={pages.first} shown={shown.length} all={all.length} go={pages.go} />
        </div>
      </div>
      <div role="status">
        {fetching && <p class="awaited">Fetching the model of round {count(fetched.round)}…</p>}
        {fetched?.said && <p class="note">{sentence(fetched.said)}</p>}
        {fetched?.error && <Problem error={fetched.error} remedy={fetched.remedy} />}
      </div>
      <div {...pages.still}>
      <Table
        caption="Models, newest first"
        head={
          <>
            <th class="n">round</th>
            <th>digest</th>
            <th>made by</th>
            <th class="n">loss</th>
            <th class="n">{metricName({ rounds }, status)}</th>
            <th>committed</th>
            <th class="n">record</th>
            <th>method</th>
            {models && <th>held by</th>}
            <th class="screen">proof</th>
          </>
        }
      >
        {shown.map((r) => {
          const m = held.get(r.round);
          const isOpen = open === r.round;
          return (
            <Fragment key={r.round}>
              <tr class={isOpen ? "open" : undefined}>
                <th scope="row" class="n">
                  {count(r.round)}
                </th>
                <td class="nowrap">
                  <Digest of={r.digest} /> {(m?.final || r.round === finalRound) && <State tone="good">final</State>}
                </td>
                <td>{r.peers.length ? <Names of={r.peers.filter((p) => p.contributed).map((p) => p.node)} most={3} /> : "–"}</td>
                <td class="n"><Merged of={r} what="loss" awaited={loss} /></td>
                <td class="n"><Merged of={r} what="metric" awaited={metric} /></td>
                <td>
                  <Time at={r.committed} />
                </td>
                <td class="n">{r.record ? count(r.record) : "–"}</td>
                <td>{r.method || "–"}</td>
                {models && (
                  <td>
                    {m ? <Names of={m.holders} most={3} /> : <span class="soft">no node</span>}{" "}
                    {m && models.export && (
                      <button type="button" class="quiet" aria-disabled={fetching || undefined} aria-label={`fetch round ${r.round}`} onClick={() => fetching || void fetchOne(m)}>
                        fetch
                      </button>
                    )}
                  </td>
                )}
                <td class="screen">
                  <button type="button" class="quiet" aria-expanded={isOpen} aria-label={`${isOpen ? "close" : "verify"} round ${r.round}`} onClick={() => (pages.keep(), setOpen(isOpen ? null : r.round))}>
                    {isOpen ? "close" : "verify"}
                  </button>
                </td>
              </tr>
              {isOpen && (
                <tr class="detail">
                  <td colSpan={models ? 10 : 9}>
                    <ProofOf contract={name} run={run} round={r} model={m} status={status} />
                  </td>
                </tr>
              )}
            </Fragment>
          );
        })}
      </Table>
      </div>
      <PlainMeans of={rounds} />
    </div>
  );
}

/** A round of which nothing is known. */
export const bare = (round: number): HistoryRound => ({
  round, attempt: 0, planned: null, committed: null, durations_ms: { waiting: null, training: null, exchange: null, commit: null },
  bytes_sent: null, bytes_received: null, failed: [], peers: [], weighted: false, loss: null, metric: null, digest: "", record: null, method: "",
});

const unknown = (m: Model): HistoryRound => ({ ...bare(m.round), committed: m.committed, digest: m.digest });

/** Has swarmctl read the ledger, and shows what it proves of a model. */
export function ProofOf({ contract, run, round, model, status }: { contract: string; run: number; round: HistoryRound; model: Model | undefined; status: Status | undefined }) {
  const [proof, set] = useState<Doc<Proof> | "asking" | undefined>();
  const verify = async () => {
    set("asking");
    set(await ask<Proof>(`proof/${contract}/${run ? `${run}/` : ""}${round.round}`));
  };
  return (
    <div class="proof">
      <Facts
        of={[
          ["digest (BLAKE3)", round.digest && <Digest of={round.digest} whole />],
          ["optimiser's state", model?.state_digest ? <Digest of={model.state_digest} whole /> : null],
          ["merge method", round.method || status?.method],
          ["ledger record", round.record && count(round.record)],
          ["attempt", round.attempt || null],
        ]}
      />
      {!proof && (
        <p>
          <button type="button" onClick={() => void verify()}>
            Verify now
          </button>{" "}
          <span class="soft">swarmctl reads the ledger of an SN and checks its chain, and with <code>--bundle</code> the signatures, as swarmctl verify ledger does.</span>
        </p>
      )}
      {proof === "asking" && (
        <p class="awaited" role="status">
          Reading the ledger and checking signatures…
        </p>
      )}
      {proof && proof !== "asking" && (proof.value ? <Verified of={proof.value} digest={round.digest} /> : <Problem error={proof.error ?? "there is no proof"} remedy={proof.remedy} />)}
    </div>
  );
}

function Verified({ of: p, digest }: { of: Proof; digest: string }) {
  const same = !digest || p.digest === digest;
  const state = same ? p.state : "bad";
  return (
    <div>
      <p role="status">
        <State tone={state === "verified" ? "good" : state === "unchecked" ? "warn" : "bad"}>{state === "verified" ? "verified" : state === "unchecked" ? "signatures not checked" : "not verified"}</State>{" "}
        {state === "verified"
          ? `The ledger proves this model: ${many(p.participants.filter((x) => x.signed).length, "node")} received and signed it, and the chain of ${many(p.records, "record")} is whole.`
          : state === "unchecked"
            ? `The ledger has this model, and the chain of ${many(p.records, "record")} is whole. For the signatures start swarmctl dashboard with --bundle and the CA certificates of the founding.`
            : same
            ? "The ledger does not prove this model."
            : "The ledger has another model of this round than this page shows."}
      </p>
      {p.problems.map((x) => (
        <Problem key={x} error={x} />
      ))}
      <Table
        caption={`Who made the model of round ${p.round}`}
        head={
          <>
            <th>node</th>
            <th>signature</th>
            <th class="n">weight</th>
            <th class="n">share</th>
            <th>SPIFFE ID</th>
            <th>node key</th>
          </>
        }
      >
        {p.participants.map((x) => (
          <tr key={x.node}>
            <th scope="row">{x.node}</th>
            <td>
              <State tone={x.signed ? "good" : x.problem ? "bad" : "warn"}>{x.signed ? "good" : x.problem || "not checked"}</State>
            </td>
            <td class="n">{count(x.weight)}</td>
            <td class="n">{(100 * x.share).toFixed(1)} %</td>
            <td class="long">{x.spiffe_id}</td>
            <td>
              <Digest of={x.peer_id} />
            </td>
          </tr>
        ))}
      </Table>
      <Facts
        of={[
          ["ledger record", `${count(p.record)} of ${count(p.records)}`],
          ["head of the ledger", <Digest of={p.head} />],
          ["method", p.method],
          ["rules in force", p.rules ? `${p.rules_text || "none"} (record ${count(p.rules.record)}, by ${p.rules.by})` : "none: no operator had given it any"],
          ["committed", <Time at={p.at} />],
        ]}
      />
    </div>
  );
}
