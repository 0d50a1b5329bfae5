// What the leader remembers of rounds, where no SN has a history.
import type { History, HistoryRound, Status } from "./documents.gen";
import type { Doc } from "./store";

/** The history of a contract, or what its status says of the last rounds, and then why it is no more. */
export function historyOr(doc: Doc<History> | undefined, status: Status | undefined): { history: History | undefined; lacks: { error: string; remedy: string } | undefined } {
  if (!doc || doc.value) return { history: doc?.value, lacks: undefined };
  return { history: status && remembered(status), lacks: { error: `There is no history of this contract, only what the leader remembers: ${doc.error ?? "no answer"}`, remedy: doc.remedy ?? "" } };
}

const made = new WeakMap<Status, History>();

function remembered(s: Status): History {
  let history = made.get(s);
  if (!history) {
    const rounds = s.rounds.map((r): HistoryRound => ({
      round: r.round, attempt: r.attempt, planned: r.planned, committed: r.committed, digest: r.digest, failed: [], weighted: false, loss: null, metric: null, bytes_sent: null, bytes_received: null, record: null, method: "",
      durations_ms: { waiting: null, training: null, exchange: r.planned && r.committed ? Date.parse(r.committed) - Date.parse(r.planned) : null, commit: null },
      peers: r.participants.map((node) => ({ node, loss: null, metric: null, weight: null, contributed: true, sent: null, received: null })),
    }));
    made.set(s, (history = { contract: s.name, run: s.run, rounds, thinned: Math.max(0, (rounds[0]?.round ?? 1) - 1), hidden: s.hidden, metric_name: s.metric_name, earlier: [], recorded: [], reported: [] }));
  }
  return history;
}
