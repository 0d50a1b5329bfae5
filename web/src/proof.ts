// Documents that only pages ask for, once.

/** What the ledger proves of a model. */
export interface Proof {
  contract: string;
  run: number;
  round: number;
  digest: string;
  method: string;
  /** number of the ledger's record, and its hash */
  record: number;
  record_hash: string;
  at: string | null;
  head: string;
  records: number;
  good: boolean;
  /** whose CA certificates were used, in words; empty: signatures were not checked */
  bundle: string;
  participants: { node: string; spiffe_id: string; peer_id: string; weight: number; share: number; signed: boolean; problem: string }[];
  problems: string[];
}

/** The last lines of a node's log. */
export interface Logs {
  node: string;
  lines: { host: string; from: string; text: string }[];
}
