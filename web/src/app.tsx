// The frame around all pages.
import { useEffect, useRef } from "preact/hooks";
import { absolute, sentence } from "./format";
import { Problem, TimesButton, useNow } from "./parts";
import { path, useRoute } from "./route";
import { useContact, useDoc } from "./store";
import { ContractPage } from "./pages/contract";
import { ContractsPage } from "./pages/contracts";
import { EarlierPage } from "./pages/earlier";
import { EventsPage } from "./pages/events";
import { JobPage } from "./pages/job";
import { ModelsPage } from "./pages/models";
import { NodePage } from "./pages/node";
import { SwarmPage } from "./pages/swarm";
import { TasksPage } from "./pages/tasks";

const links: [name: string, to: string, also: string[], rest?: string][] = [
  ["Swarm", "", ["", "node"]],
  ["Contracts", "contracts", ["contracts", "contract", "models"]],
  ["Tasks", "tasks", ["tasks", "job"], "and jobs"],
  ["Events", "events", ["events"]],
];

export function App() {
  const route = useRoute();
  const [page = "", name = "", run = ""] = route;
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  const here = route.join("/");
  useEffect(() => {
    document.title = `${name || links.find(([, to]) => to === page)?.[0] || "swarm"} – swarm`;
    if (!first.current) {
      scrollTo(0, 0);
      main.current?.focus({ preventScroll: true });
    }
    first.current = false;
  }, [here]);
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => (e.preventDefault(), main.current?.focus())}>
        to the page
      </a>
      <Top page={page} />
      <Contact />
      <main id="main" ref={main} tabIndex={-1} key={here}>
        <Page page={page} name={name} run={Number(run)} />
      </main>
      <Foot />
    </>
  );
}

function Page({ page, name, run }: { page: string; name: string; run: number }) {
  switch (page) {
    case "":
      return <SwarmPage />;
    case "contracts":
      return <ContractsPage />;
    case "contract":
      return run > 0 ? <EarlierPage name={name} run={run} here="training" /> : <ContractPage name={name} />;
    case "models":
      return run > 0 ? <EarlierPage name={name} run={run} here="models" /> : <ModelsPage name={name} />;
    case "tasks":
      return <TasksPage />;
    case "job":
      return <JobPage name={name} />;
    case "node":
      return <NodePage name={name} />;
    case "events":
      return <EventsPage />;
  }
  return (
    <>
      <header class="title">
        <h1>There is no such page</h1>
      </header>
      <p>
        <a href={path()}>The swarm</a>
      </p>
    </>
  );
}

function Top({ page }: { page: string }) {
  const contact = useContact();
  const swarm = useDoc("swarm")?.value;
  const waiting = useDoc("approvals")?.value?.approvals.length ?? 0;
  const words = { connecting: "connecting", live: "live", stale: "stale", ended: "ended", lost: "no answer", out: "shut out" }[contact.state];
  return (
    <header class="top">
      <nav aria-label="pages">
        <a class="brand" href={path()} aria-label="swarm">
          <svg viewBox="0 0 16 16" aria-hidden="true">
            <path d="M8 3.2 3.4 11.6h9.2z" />
            <circle cx="8" cy="3.4" r="2.3" />
            <circle cx="3.4" cy="11.8" r="2.3" />
            <circle cx="12.6" cy="11.8" r="2.3" />
          </svg>
        </a>
        {links.map(([short, to, also, rest]) => (
          <a key={to} href={path(...(to ? [to] : []))} aria-current={also.includes(page) ? "page" : undefined}>
            {short}
            {rest && <span class="rest">&nbsp;{rest}</span>}
            {to === "tasks" && waiting > 0 && (
              <span class="badge" title={`${waiting} wait for approval`}>
                {waiting}
                <span class="hidden"> wait for approval</span>
              </span>
            )}
          </a>
        ))}
      </nav>
      <div class="contact">
        <TimesButton />
        <span class={`live ${contact.state}`} role="status" title={swarm ? `swarm ${swarm.swarm_id}` : undefined}>
          <i aria-hidden="true" />
          {words}
          {contact.sn && <span class="soft sn"> {contact.sn}</span>}
        </span>
      </div>
    </header>
  );
}

/** A moment in words, with its day unless that is today. */
function moment(ms: number): string {
  const [day, time] = new Date(ms).toISOString().slice(0, 19).split("T");
  return day === new Date().toISOString().slice(0, 10) ? `at ${time} UTC` : `on ${day} at ${time} UTC`;
}

/** Says why what is shown may be old, and what to do. */
function Contact() {
  const { state, since, problem, remedy } = useContact();
  const expiry = useDoc("swarm")?.value?.rights ?? [];
  const ended = state === "ended";
  const old = ended || state === "stale" || state === "lost" || state === "out";
  return (
    <div class="banner">
      <div role="alert">
        {old && (
          <Problem
            tone={ended ? "off" : state === "stale" ? "warn" : "bad"}
            error={`${ended ? "This page has ended" : "This page is stale"}: what it shows is what was known ${moment(since)}. ${sentence(problem)}`}
            remedy={remedy}
          />
        )}
      </div>
      {expiry.length > 0 && state === "live" && (
        <details class="problem warn">
          <summary>Some of the swarm is not shown to you: {expiry.map((r) => r.document).join(", ")}</summary>
          {expiry.map((r) => (
            <p key={r.document}>
              <b>{r.document}</b>: {r.error}. {r.remedy}
            </p>
          ))}
        </details>
      )}
    </div>
  );
}

/** Says on paper what it is of: whose word, and of when. */
function Foot() {
  const now = useNow();
  const { state, sn, since } = useContact();
  const swarm = useDoc("swarm")?.value;
  return (
    <footer class="paper small soft">
      {swarm && `Swarm ${swarm.swarm_id}, as SN ${sn || swarm.sn} tells ${swarm.identity.spiffe_id || "swarmctl"}. `}
      Printed {absolute(now)}
      {state !== "live" && `, as known ${moment(since)}`}.
    </footer>
  );
}
