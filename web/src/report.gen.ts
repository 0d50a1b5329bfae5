// Generated from the Go structs of internal/swci/report, which say what their fields are; scripts/generate writes it.

export interface Report {
  title: string;
  headline: string;
  summary: Summary;
  metric_title: string;
  baseline: boolean;
  final_models: string;
  axis: string;
  charts: Chart[];
  rounds: Round[];
  facts: Fact[];
}

export interface Summary {
  rounds: number;
  wall_seconds: number;
  peers: Peer[];
  program: string;
  metric: string;
  platform: string;
  runtime: string;
  contract: string;
  sns: number;
  min_peers: number;
  models_equal: boolean;
  started: string;
  state: string;
  reason: string;
  ended: string;
  project: string;
  program_sha256: string;
  host: string;
  contract_min_peers: number;
  method: string;
  sync_frequency: number;
  versions: Record<string, string>;
  warnings: Warning[];
}

export interface Peer {
  name: string;
  local_accuracy: number | null;
  swarm_accuracy: number | null;
  model_sha256: string | null;
  local_loss: number | null;
  swarm_loss: number | null;
  rounds: number;
  model_dir: string;
  failed: boolean;
  isolation: string;
  model_digest: string | null;
  epochs: number;
  contributed: number | null;
  weight: number | null;
  data_samples: number | null;
  train_seconds: number | null;
  merge_seconds: number | null;
  sent_bytes: number | null;
  received_bytes: number | null;
  checkin_on_end: string;
}

export interface Warning {
  reason: string;
  peer: string;
  text: string;
  advice: boolean;
}

export interface Chart {
  title: string;
  x: number[];
  curves: Curve[];
  spread: boolean;
}

export interface Curve {
  name: string;
  values: (number | null)[];
}

export interface Round {
  round: number;
  attempt: number;
  participants: string[];
  weights: number[];
  seconds: number;
  digest: string;
  final: boolean;
  loss: number | null;
  metric: number | null;
  durations_ms?: Phases | null;
  failed?: FailedAttempt[];
}

export interface Phases {
  waiting: number | null;
  training: number | null;
  exchange: number | null;
  commit: number | null;
}

export interface FailedAttempt {
  attempt: number;
  blamed: string;
  reason: string;
}

export interface Fact {
  name: string;
  value: string;
  code: boolean;
}
