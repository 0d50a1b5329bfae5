// A run of a contract from before a reset: what the SNs have kept of it, and what the ledger proves.
import { useCallback, useMemo, useState } from "preact/hooks";
import { hues } from "../chart";
import type { History } from "../documents.gen";
import { sentence } from "../format";
import { Awaited, Problem, Section, Source } from "../parts";
import { Contributions, Rounds } from "../rounds";
import { runPath } from "../runs";
import { useAsked, useDoc } from "../store";
import { metricName } from "../words";
import { ContractHead, Curves, peersOf } from "./contract";
import { bare, List, ProofOf } from "./models";

export function EarlierPage({ name, run, here }: { name: string; run: number; here: "training" | "models" }) {
  const status = useDoc(`contract/${name}`)?.value;
  const { doc: past, asking, again } = useAsked<History>(`history/${name}/${run}`);
  const h = past?.value;
  const now = useDoc<History>(past && !h ? `history/${name}` : "")?.value; // which says of which runs there is one
  return (
    <>
      <ContractHead name={name} status={status} here={here} run={run} earlier={(h ?? now)?.earlier} />
      <p class="note">
        This is run {run}, as it was when it was asked for. <a href={runPath(here === "models" ? "models" : "contract", name, 0)}>The run now{status && ` is run ${status.run}`}</a>.
      </p>
      {!past && <Awaited what="rounds" />}
      {past && !h && past.gone && <Gone name={name} run={run} error={past.error ?? "no answer"} remedy={past.remedy} />}
      {past && !h && !past.gone && (
        <>
          <Problem tone="warn" error={`Run ${run} can't be shown now: ${past.error ?? "no answer"}`} remedy={past.remedy} />
          <p>
            <button type="button" aria-disabled={asking} onClick={() => asking || again()}>
              Ask again
            </button>{" "}
            <span role="status" class="soft">{asking && "Asking…"}</span>
          </p>
        </>
      )}
      {h && here === "training" && <Past of={h} />}
      {h && here === "models" && (
        <Section title={`Models of run ${run}`} note="newest first; verify reads in the ledger who made one" aside={<>digest, members, record: <Source of="recorded" /> loss, metric, times: <Source of="reported" /></>}>
          <List key={h.run} name={name} run={run} rounds={h.rounds} thinned={h.thinned} going={false} />
        </Section>
      )}
    </>
  );
}

function Past({ of: h }: { of: History }) {
  const peers = useMemo(() => peersOf(undefined, h), [h]);
  const hue = useCallback((node: string) => (peers.length <= hues ? peers.indexOf(node) : undefined), [peers]);
  return (
    <>
      <Section title="Curves" aside={<Source of="reported" />}>
        {h.hidden && <p class="soft">{sentence(h.hidden)}</p>}
        <Curves of={h} metric={metricName(h)} peers={peers} hue={hue} known />
      </Section>
      <Section title="Rounds" aside={<>digest, members: <Source of="recorded" /> times, bytes, loss, metric: <Source of="reported" /></>}>
        <Rounds of={h} metric={metricName(h)} going={false} />
      </Section>
      <Section title="Who contributed" aside={<>members, weights: <Source of="recorded" /> bytes: <Source of="reported" /></>}>
        <Contributions of={h} hue={hue} />
      </Section>
    </>
  );
}

/** What remains where the SNs keep no history of a run. */
function Gone({ name, run, error, remedy }: { name: string; run: number; error: string; remedy: string | undefined }) {
  const [typed, type] = useState("");
  const [round, verify] = useState(0);
  return (
    <>
      <Problem tone="warn" error={error} remedy={remedy} />
      <Section title="What the ledger proves" note="curves and times are gone with the history; the ledger has each round that was committed, if there was such a run">
        <form class="choose" onSubmit={(e) => (e.preventDefault(), verify(Number(typed)))}>
          <label>
            round <input type="number" min="1" required value={typed} onInput={(e) => type(e.currentTarget.value)} />
          </label>{" "}
          <button type="submit">Look it up</button>
        </form>
        {round > 0 && <ProofOf key={round} contract={name} run={run} round={bare(round)} model={undefined} status={undefined} />}
      </Section>
    </>
  );
}
