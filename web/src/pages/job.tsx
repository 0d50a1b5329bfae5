// One job and its members.
import { useState } from "preact/hooks";
import type { JobMember } from "../documents.gen";
import { Followed } from "../log";
import { Digest, Empty, Facts, Kept, Section, State, Table, Time, Words } from "../parts";
import { path } from "../route";
import { useDoc } from "../store";
import { memberTone, verdictTone } from "../words";

/** A member on a host: one that is placed anew elsewhere is another one. */
interface Followee {
  member: string;
  host: string;
}

export function JobPage({ name }: { name: string }) {
  const job = useDoc(`job/${name}`);
  const [followed, follow] = useState<Followee>();
  return (
    <>
      <header class="title">
        <p class="crumbs">
          <a href={path("tasks")}>Tasks and jobs</a>
        </p>
        <h1>{name}</h1>
      </header>
      <Kept doc={job} what={`job ${name}`}>
        {({ run: r, hosts, members }) => {
          const v = verdictTone(r.phase, r.verdict);
          return (
            <>
              <p class="lead">
                <State tone={v.tone}>{v.word}</State> {r.verdict ? [r.end, r.reason].filter(Boolean).join(": ") : r.wants}
              </p>
              <Section title="Members">
                {members.length === 0 ? (
                  <Empty title="No member was placed yet.">
                    <p>{r.wants || "The SNs place members when hosts have room."}</p>
                  </Empty>
                ) : (
                  <Table
                    caption={`Members of ${name}`}
                    head={
                      <>
                        <th>member</th>
                        <th>host</th>
                        <th>state</th>
                        <th class="n">exit code</th>
                        <th>what its host says</th>
                        <th>cleaned</th>
                        <th>changed</th>
                        <th class="screen">log</th>
                      </>
                    }
                  >
                    {members.map((m) => (
                      <tr key={m.rank}>
                        <th scope="row">
                          {m.group}/{m.rank}
                        </th>
                        <td>
                          <a href={path("node", m.host)}>{m.host}</a>
                        </td>
                        <td>
                          <State tone={memberTone(m.state, m.exit_code)}>{m.state}</State>
                        </td>
                        <td class="n">{m.exit_code ?? "–"}</td>
                        <td class="words"><Words text={m.text || "–"} /></td>
                        <td>{m.cleaned ? "yes" : "not yet"}</td>
                        <td>
                          <Time at={m.changed} />
                        </td>
                        <td class="screen">
                          <button type="button" class="quiet" aria-pressed={is(m, followed)} aria-label={`Follow the log of ${label(m)}`} onClick={() => follow(is(m, followed) ? undefined : { member: label(m), host: m.host })}>
                            Follow
                          </button>
                        </td>
                      </tr>
                    ))}
                  </Table>
                )}
              </Section>
              {followed && (
                <Section key={`${followed.member} ${followed.host}`} title={`Log of ${followed.member} on ${followed.host}`} note="Its host decides who may read it, and logs that you did.">
                  <Elsewhere of={followed} members={members} />
                  <Followed of={name} host={followed.host} member={followed.member} label={`log of ${followed.member}`} done={() => follow(undefined)} />
                </Section>
              )}
              <Section title="About this run">
                <Facts
                  of={[
                    ["asked for by", r.by],
                    ["asked for", <Time at={r.created} />],
                    ["ended", r.ended ? <Time at={r.ended} /> : null],
                    ["hosts that may have members", hosts.join(", ")],
                    ["rank 0 runs beside", r.beside],
                    ["starts", `${r.epoch} of at most ${r.restarts + 1}`],
                    ["task", r.task],
                    ["digest of the task", <Digest of={r.digest} />],
                    ["logs", <code>swarmctl get logs {name}</code>],
                  ]}
                />
              </Section>
            </>
          );
        }}
      </Kept>
    </>
  );
}

/** Says that a member whose log is shown is no more where it was. Its lines stay until they are closed. */
function Elsewhere({ of, members }: { of: Followee; members: JobMember[] }) {
  const now = members.find((m) => label(m) === of.member);
  return (
    <p role="status">
      {now?.host !== of.host && (
        <>
          <State tone="warn">old</State> {of.member} {now ? `was placed anew, on ${now.host}` : "is no member any more"}: these are its lines on {of.host}.
        </>
      )}
    </p>
  );
}

const label = (m: JobMember) => `${m.group}/${m.rank}`;

const is = (m: JobMember, f: Followee | undefined) => f?.member === label(m) && f.host === m.host;
