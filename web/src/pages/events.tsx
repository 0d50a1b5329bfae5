// What happened in the swarm, newest first: from the ledger, and what SNs have noticed.
import { useMemo, useState } from "preact/hooks";
import type { Event } from "../documents.gen";
import { count, many } from "../format";
import { Cut, Empty, Id, Problem, Shown, Source, Table, Time } from "../parts";
import { path } from "../route";
import { useDoc } from "../store";

const page = 100;
const sources: Record<string, string> = { reported: "seen by SNs", recorded: "in the ledger" };

export function EventsPage() {
  const events = useDoc("events");
  const checked = events?.value && events.value.good && events.value.signatures ? "verified" : "recorded";
  return (
    <>
      <header class="title">
        <h1>Events</h1>
        <p class="lead">
          What somebody did, as the ledger has it {events?.value && <Source of={checked} />}, and what SNs have noticed <Source of="reported" />, newest first.
        </p>
      </header>
      <Shown doc={events} what="events">
        {(e) => (
          <>
            {!e.good && <Problem error={`Something is wrong with the ledger: ${e.problem}`} remedy="swarmctl get ledger, then swarmctl verify ledger" />}
            {e.unreported && <Problem tone="warn" error={`What SNs have noticed can't be asked for: ${e.unreported}`} remedy="swarmctl get events" />}
            <List of={e.events} older={e.older} reportedOlder={e.reported_older} checked={checked} />
          </>
        )}
      </Shown>
    </>
  );
}

function List({ of, older, reportedOlder, checked }: { of: Event[]; older: number; reportedOlder: number; checked: "verified" | "recorded" }) {
  const [text, setText] = useState("");
  const [kind, setKind] = useState("");
  const [most, setMost] = useState(page);
  const kinds = useMemo(() => [...new Set(of.map((e) => e.kind))].filter(Boolean).sort(), [of]);
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = of.filter((e) => (!kind || e.kind === kind || e.source === kind) && wanted.every((w) => `${e.who} ${e.sn} ${e.what} ${e.kind} ${e.about} ${e.text}`.toLowerCase().includes(w)));
  if (of.length === 0) return <Empty title="Nothing has happened yet." />;
  return (
    <>
      <form class="bar-tools" role="search" onSubmit={(e) => e.preventDefault()}>
        <label>
          with <input type="search" value={text} placeholder="sl-1 banned" onInput={(e) => (setText(e.currentTarget.value), setMost(page))} />
        </label>
        <label>
          of{" "}
          <select value={kind} onChange={(e) => (setKind(e.currentTarget.value), setMost(page))}>
            <option value="">everything</option>
            <optgroup label="from">
              {Object.entries(sources).map(([source, words]) => (
                <option key={source} value={source}>
                  {words}
                </option>
              ))}
            </optgroup>
            <optgroup label="about">
              {kinds.map((k) => (
                <option key={k} value={k}>
                  {k === "rights" ? k : `${k}s`}
                </option>
              ))}
            </optgroup>
          </select>
        </label>
        <span class="soft small" role="status">
          {found.length === of.length ? many(of.length, "event") : `${count(found.length)} of ${many(of.length, "event")}`}
          {(text || kind) && <span class="paper">: those{text && ` with “${text}”`}{kind && ` ${sources[kind] ?? `about ${kind}`}`}</span>}
        </span>
      </form>
      {found.length === 0 ? (
        <Empty title="No event is like that." />
      ) : (
        <Table
          class="events"
          caption="Events, newest first"
          head={
            <>
              <th>when</th>
              <th>what</th>
              <th>about</th>
              <th>more</th>
              <th>who</th>
              <th>source</th>
            </>
          }
        >
          {found.slice(0, most).map((e) => (
            <tr key={e.record || `${e.time} ${e.sn} ${e.what} ${e.about} ${e.text}`}>
              <td>
                <Time at={e.time} />
              </td>
              <th scope="row">{e.what}</th>
              <td>
                <About of={e} />
              </td>
              <td class="words">{more(e) || "–"}</td>
              <td class="words">{e.who || e.source === "recorded" ? <Id of={e.who || "the SNs"} /> : "–"}</td>
              <td class="nowrap">
                <Source of={e.source === "recorded" ? checked : "reported"} /> {e.source === "recorded" ? `record ${count(e.record)}` : `by ${e.sn}`}
              </td>
            </tr>
          ))}
        </Table>
      )}
      {found.length > most && (
        <button type="button" onClick={() => setMost(most + page)}>
          show older ones
        </button>
      )}
      <Cut shown={Math.min(most, found.length)} all={found.length} />
      {older > 0 && (
        <p class="soft small">
          {many(older, "older event")} left out: <code>swarmctl audit</code> has all.
        </p>
      )}
      {reportedOlder > 0 && (
        <p class="soft small">
          {many(reportedOlder, "older event")} that SNs have noticed left out: <code>swarmctl get events</code> has what they keep.
        </p>
      )}
    </>
  );
}

/** What the words say beside what other columns have. */
function more(e: Event): string {
  const same = `${e.what} ${e.kind} ${e.about}`;
  return e.text.startsWith(same) ? e.text.slice(same.length).replace(/^[,: ]+/, "") : e.text;
}

function About({ of: e }: { of: Event }) {
  const to = { node: "node", contract: "contract", model: "models" }[e.kind];
  if (!e.about) return <span class="soft">{e.kind || "–"}</span>;
  return (
    <span class="nowrap">
      <span class="soft">{e.kind}</span> {to ? <a href={path(to, e.about)}>{e.about}</a> : e.about}
    </span>
  );
}
