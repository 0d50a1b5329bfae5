// Tasks and jobs: what waits for a word, what hosts carry out, what was written.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Approval, TaskBody } from "../documents.gen";
import { count, many } from "../format";
import { Digest, Empty, Id, Kept, Problem, Section, Shown, State, Table, Time, Words } from "../parts";
import { path } from "../route";
import { act, ask, useDoc, type Doc } from "../store";
import { verdictTone } from "../words";

export function TasksPage() {
  const swarm = useDoc("swarm");
  const approvals = useDoc("approvals");
  const jobs = useDoc("jobs");
  const assignments = useDoc("assignments");
  const tasks = useDoc("tasks");
  const [done, setDone] = useState(""); // what was signed last: its card has gone then
  const [gone, setGone] = useState(""); // what went while somebody was at it
  const result = useRef<HTMLParagraphElement>(null);
  const tell = (said: string, left = "") => {
    setDone(said);
    setGone(left);
    if (said || left) requestAnimationFrame(() => free() && result.current?.focus());
  };
  return (
    <>
      <header class="title">
        <h1>Tasks and jobs</h1>
        <p class="lead">What operators have hosts carry out, and what hosts ask before.</p>
      </header>
      <Section title="Waits for approval">
        <p role="status" tabIndex={-1} ref={result}>
          {done && (
            <>
              <State tone="good">signed</State> {done}
            </>
          )}
          {gone}
        </p>
        <Kept doc={approvals} what="approvals">
          {(a) =>
            a.approvals.length === 0 ? (
              <Empty title="No host waits for a word." />
            ) : (
              <ul class="cards">
                {a.approvals.map((x) => (
                  <Word key={x.assignment + x.host} of={x} may={!!swarm?.value?.actions} own={swarm?.value?.identity?.spiffe_id ?? ""} tell={tell} />
                ))}
              </ul>
            )
          }
        </Kept>
      </Section>
      <Section title="Jobs">
        <Shown doc={jobs} what="jobs">
          {(j) =>
            j.runs.length === 0 ? (
              <Empty title="No job has run.">
                <p>
                  A first one: <code>swarmctl init job my-job --framework pytorch</code>, then <code>swarmctl run job my-job/job.yaml</code>
                </p>
              </Empty>
            ) : (
              <>
                <Table
                  caption="Jobs, newest first"
                  head={
                    <>
                      <th>job</th>
                      <th>state</th>
                      <th class="n">members</th>
                      <th class="n">starts</th>
                      <th>waits for, or why it ended</th>
                      <th>by</th>
                      <th>begun</th>
                      <th>changed</th>
                    </>
                  }
                >
                  {[...j.runs].reverse().map((r) => {
                    const v = verdictTone(r.phase, r.verdict);
                    return (
                      <tr key={r.assignment}>
                        <th scope="row" class="long">
                          <a href={path("job", r.job)}>{r.job}</a>
                        </th>
                        <td>
                          <State tone={v.tone}>{v.word}</State>
                        </td>
                        <td class="n">{count(r.members)}</td>
                        <td class="n">{r.epoch}</td>
                        <td class="words">{r.verdict ? [r.end, r.reason].filter(Boolean).join(": ") : r.wants || "–"}</td>
                        <td class="words"><Id of={r.by} /></td>
                        <td>
                          <Time at={r.created} />
                        </td>
                        <td>
                          <Time at={r.ended ?? r.changed} />
                        </td>
                      </tr>
                    );
                  })}
                </Table>
                <LeftOut n={j.left_out} />
              </>
            )
          }
        </Shown>
      </Section>
      <Section title="Assignments">
        <Shown doc={assignments} what="assignments">
          {(a) =>
            a.assignments.length === 0 ? (
              <Empty title="No task was handed to hosts.">
                <p>
                  <code>swarmctl assign task TASK to TASKRUNNER with all peers</code>
                </p>
              </Empty>
            ) : (
              <>
                <Table
                  caption="Assignments, newest first"
                  head={
                    <>
                      <th>task</th>
                      <th>type</th>
                      <th>state</th>
                      <th class="n">hosts</th>
                      <th>waits for, or why it ended</th>
                      <th>taskrunner</th>
                      <th>by</th>
                      <th>assigned</th>
                      <th>changed</th>
                    </>
                  }
                >
                  {[...a.assignments].reverse().map((r) => {
                    const v = verdictTone(r.phase, r.verdict);
                    return (
                      <tr key={r.id}>
                        <th scope="row" class="long">{r.task}</th>
                        <td class="nowrap">{r.task_type || "deleted"}</td>
                        <td>
                          <State tone={v.tone}>{v.word}</State>
                        </td>
                        <td class="n">{count(r.members)}</td>
                        <td class="words">{(r.verdict ? r.reason : r.wants) || "–"}</td>
                        <td class="long">{r.taskrunner || "–"}</td>
                        <td class="words"><Id of={r.by} /></td>
                        <td>
                          <Time at={r.created} />
                        </td>
                        <td>
                          <Time at={r.ended ?? r.changed} />
                        </td>
                      </tr>
                    );
                  })}
                </Table>
                <LeftOut n={a.left_out} />
              </>
            )
          }
        </Shown>
      </Section>
      <Section title="Tasks">
        <Shown doc={tasks} what="tasks">
          {(t) => (
            <Table
              caption="Tasks"
              head={
                <>
                  <th>task</th>
                  <th>type</th>
                  <th>state</th>
                  <th>digest</th>
                  <th>after</th>
                  <th>makes</th>
                  <th>by</th>
                  <th>made</th>
                </>
              }
            >
              {t.tasks.map((x) => (
                <tr key={x.name}>
                  <th scope="row" class="long">{x.name}</th>
                  <td class="nowrap">{x.type}</td>
                  <td>
                    <State tone={x.status === "FINALIZED" ? "good" : "off"}>{x.status === "FINALIZED" ? "final" : "can be changed"}</State>
                  </td>
                  <td>
                    <Digest of={x.digest} />
                  </td>
                  <td>{x.prereq || "–"}</td>
                  <td>{x.outcome || "–"}</td>
                  <td class="words"><Id of={x.by || "–"} /></td>
                  <td>
                    <Time at={x.created} />
                  </td>
                </tr>
              ))}
            </Table>
          )}
        </Shown>
      </Section>
    </>
  );
}

function LeftOut({ n }: { n: number }) {
  return n > 0 ? <p class="soft small">{many(n, "older one")} left out, for which the SN's answer has no room. The ledger has all.</p> : null;
}

/** Whether the focus may be moved: it is in an element, or what had it has gone. */
const free = (element?: Element | null) => document.activeElement === document.body || !!element?.contains(document.activeElement);

/** What waits for an operator's word, and the means to give it. The focus goes where there is something to read, or to do, next. */
function Word({ of: a, may, own, tell }: { of: Approval; may: boolean; own: string; tell: (said: string, left?: string) => void }) {
  const [mode, setMode] = useState<"" | "approve" | "refuse" | "busy">("");
  const [reason, setReason] = useState("");
  const [failed, setFailed] = useState<{ error?: string; remedy?: string }>();
  const [body, setBody] = useState<Doc<TaskBody>>();
  const [signed, setSigned] = useState(""); // what was to be signed, as it was then: until it is another, nothing more is
  const card = useRef<HTMLLIElement>(null);
  const from = useRef("approve"); // what "not now" leads back to
  const focus = (part: string) => void requestAnimationFrame(() => free(card.current) && card.current?.querySelector<HTMLElement>(part)?.focus());
  const turn = (to: "approve" | "refuse") => {
    from.current = to;
    setFailed(undefined);
    setMode(to);
  };
  const back = () => {
    setMode("");
    focus(`button.${from.current}`);
  };
  const give = async (word: "approve" | "refuse") => {
    setMode("busy");
    focus(".awaited");
    tell("");
    const said = await act({ do: word, task: a.task, host: a.host, digest: a.digest, reason: word === "refuse" ? reason : "" });
    setFailed(said);
    setMode("");
    if (!said.said) return focus(".failure");
    here.current = false;
    setSigned(JSON.stringify(a));
    tell(said.said);
  };
  const read = async () => {
    turn("approve");
    setBody(undefined);
    focus(".awaited");
    setBody(await ask<TaskBody>(`body/${a.task}`));
    focus(".to-read");
  };
  const here = useRef(false); // somebody is at it
  const leave = (e: FocusEvent) => {
    if (e.relatedTarget && !card.current?.contains(e.relatedTarget as Element)) here.current = false;
  };
  useEffect(() => () => void (here.current && tell("", `${a.host} waits no more for a word about task ${a.task}.`)), []);
  const same = body?.value?.digest === a.digest;
  const tooLong = new TextEncoder().encode(reason).length > 256;
  return (
    <li class="card" ref={card} onFocusIn={() => (here.current = true)} onFocusOut={leave}>
      <p>
        <b>{a.host}</b> asks before it carries out task <b>{a.task}</b> ({a.task_type || "deleted"}), digest <Digest of={a.digest} />
      </p>
      <p class="soft">
        asked for by <Id of={a.by} />
        {a.beside && `, beside ${a.beside}`}; waits <Time at={a.since} words="since" />, may begin {a.expires ? <Time at={a.expires} words="until" /> : "at any time"}
      </p>
      {a.text && <p class="soft">{a.host} says: <Words text={a.text} /></p>}
      {!may && (
        <p>
          Read it: <code>swarmctl get task body {a.task}</code>, then <code>swarmctl approve task {a.task} on {a.host}</code>. To decide on this page, start it with <code>--actions</code>.
        </p>
      )}
      {may && a.by === own && <p class="soft">You have asked for this task yourself: the host goes by the word of somebody else.</p>}
      {may && mode === "" && signed === JSON.stringify(a) && <p class="soft">You have signed; {a.host} has yet to take it.</p>}
      {may && mode === "" && signed !== JSON.stringify(a) && (
        <p class="buttons">
          {a.by !== own && (
            <button type="button" class="approve" onClick={() => void read()}>
              Approve…
            </button>
          )}
          <button
            type="button"
            class="refuse"
            onClick={() => {
              turn("refuse");
              focus("input");
            }}
          >
            Refuse…
          </button>
        </p>
      )}
      {mode === "approve" && !body && (
        <p class="awaited" role="status" tabIndex={-1}>
          Asking the swarm for the task…
        </p>
      )}
      {mode === "approve" && body && !body.value && (
        <div class="to-read" tabIndex={-1}>
          <Problem alert error={body.error ?? "the task is not there"} remedy={body.remedy} />
        </div>
      )}
      {mode === "approve" && body?.value && (
        <pre class="log to-read" tabIndex={0} role="region" aria-label={`what ${a.task} has hosts do`}>
          {body.value.lines.join("\n")}
        </pre>
      )}
      {mode === "approve" && body?.value && !same && (
        <Problem alert error={`The task has changed: this is digest ${body.value.digest.slice(0, 12)}, and ${a.host} asks for ${a.digest.slice(0, 12)}.`} remedy="sign nothing; ask who has changed it" />
      )}
      {mode === "approve" && (
        <p class="buttons">
          {same && (
            <span>
              You sign as {own} that {a.host} may carry out what stands here, digest <Digest of={a.digest} />, which swarmctl has computed of it.
            </span>
          )}
          <button type="button" class="main" disabled={!same} onClick={() => void give("approve")}>
            Sign the approval
          </button>
          <button type="button" class="quiet" onClick={back}>
            not now
          </button>
        </p>
      )}
      {mode === "refuse" && (
        <form
          class="buttons"
          onSubmit={(e) => {
            e.preventDefault();
            if (!tooLong) void give("refuse");
          }}
        >
          <label>
            because <input type="text" value={reason} onInput={(e) => setReason(e.currentTarget.value)} placeholder="one line, which all see" aria-invalid={tooLong} />
          </label>
          <button type="submit" class="main" disabled={tooLong}>
            Sign the refusal
          </button>
          <button type="button" class="quiet" onClick={back}>
            not now
          </button>
          {tooLong && <span role="alert">A reason has at most 256 bytes.</span>}
        </form>
      )}
      {mode === "busy" && (
        <p class="awaited" role="status" tabIndex={-1}>
          Signing…
        </p>
      )}
      {failed?.error && (
        <div class="failure" tabIndex={-1}>
          <Problem alert error={failed.error} remedy={failed.remedy} />
        </div>
      )}
    </li>
  );
}
