// Generated from the Go structs of swarmctl's JSON; scripts/generate writes it.

export interface Document {
  /** of the document, such as nodes or contract/NAME */
  name: string;
  /** when the swarm was asked; RFC 3339, UTC */
  at: string;
  /** what it holds, by its name */
  value?: unknown;
  /** why there is no value, in one line */
  error?: string;
  /** what to do about it, in one line */
  remedy?: string;
  /** true: the swarm answers that there is no such thing; else it may come when it is asked for again */
  gone?: boolean;
}

export interface Link {
  /** live; stale: what is shown is what was known last; ended: so it is, and nothing else will come */
  state: string;
  /** the SN that is asked, by name or address; empty: none is yet */
  sn: string;
  /** when the state or the SN changed; RFC 3339, UTC */
  since: string;
  /** why it is not live, in one line; else empty */
  problem: string;
  /** what to do about it, in one line */
  remedy: string;
}

export interface Act {
  /** approve or refuse */
  do: string;
  /** its name */
  task: string;
  /** on which it waits */
  host: string;
  /** of the task, as the page has shown it */
  digest: string;
  /** of a refusal, in words */
  reason: string;
}

export interface Acted {
  /** what was done, in one line */
  said?: string;
  /** why nothing was, in one line */
  error?: string;
  /** what to do about it */
  remedy?: string;
}

export interface LogLine {
  /** node that has handed it out */
  host: string;
  /** what has printed it, as its host says: an SL, or a job's member as GROUP/RANK; empty: the node itself */
  from: string;
  /** as it was printed: it may have control characters */
  text: string;
}

export interface Swarm {
  /** the swarm's */
  swarm_id: string;
  /** how often its group of SNs was founded, from 1 */
  epoch: number;
  /** address of the SN that was asked, HOST:PORT */
  sn: string;
  /** all SNs, by name */
  sns: SwarmSN[];
  /** name of the raft leader, empty while there is none */
  leader: string;
  /** what the SN that was asked was built as */
  version: string;
  /** what the dashboard's swarmctl was built as */
  own_version: string;
  /** name of the context that is used, empty for none */
  context: string;
  /** in whose name the swarm is asked */
  identity: Own;
  /** the page may approve and refuse tasks: --actions was given */
  actions: boolean;
  /** what this identity may not see */
  rights: MissingRight[];
}

export interface SwarmSN {
  /** the SN's */
  name: string;
  /** of its API, HOST:PORT */
  address: string;
  /** it is heard of */
  live: boolean;
}

export interface Own {
  /** of the SVID; empty: there is none now */
  spiffe_id: string;
  /** when its life began; RFC 3339, UTC */
  not_before: string | null;
  /** when it expires; RFC 3339, UTC */
  not_after: string | null;
}

export interface MissingRight {
  /** that can't be shown */
  document: string;
  /** why, in one line */
  error: string;
  /** what to do about it */
  remedy: string;
}

export interface Nodes {
  /** by role and name */
  nodes: Node[];
  /** all banned node keys, by name */
  bans: Ban[];
  /** null, or that too few SNs answer the one that was asked; exit code 7 then */
  no_quorum: NoQuorum | null;
  /** SNs that wait for an operator to admit them, and those that were admitted and have not joined, by name */
  candidates: Candidate[];
  /** SNs whose invitations nobody has used yet, by name */
  invited: Invited[];
}

export interface Node {
  /** the node's, unique in the swarm */
  name: string;
  /** sn, sl or swop */
  role: string;
  /** advertised address or host name */
  host: string;
  /** of an SN, else 0 */
  p2p_port: number;
  /** of an SN, else 0 */
  api_port: number;
  /** of the file server */
  fs_port: number;
  /** its node key is shut out */
  banned: boolean;
  /** alive, dead, left or banned; without a quorum unknown, or of an SN no answer */
  state: string;
  /** it is heard of; false where that is not known */
  live: boolean;
  /** when live last changed; RFC 3339, UTC */
  live_since: string | null;
  /** why it left, empty unless it did: that it is not live is no fault then */
  left_reason: string;
  /** the SN that founded the swarm */
  sentinel: boolean;
  /** the raft leader now */
  leader: boolean;
  /** how an SL runs its program: process or docker */
  runtime: string;
  /** what came of the SN's dial to the node's port after it registered: yes, no: with the cause, other key if another node answers there, not tried: with the cause, if the SN does not dial it or not yet; empty: not checked, as for SNs and after an election */
  reached_by_sn: string;
  /** that it says it runs, with the commit; empty: it registered before versions were told */
  version: string;
  /** of its SVID */
  spiffe_id: string;
  /** libp2p peer ID of its node key */
  peer_id: string;
  /** others that it needs a connection with, as far as is known; get health says more */
  needs: number;
  /** those of them with which one stands */
  reaches: number;
  /** whose tasks a SWOP takes; empty: it takes none */
  taskrunner: string;
  /** for how many peers a SWOP counts in a RUN_SWARM task, else 0 */
  peers: number;
  /** that a SWOP's host has, as it says; 0: not known */
  cpus: number;
  /** the same; 0: not known */
  memory_bytes: number;
  /** the same */
  gpus: number;
  /** that was free for members of jobs when a SWOP registered; 0: not known */
  disk_bytes: number;
  /** KEY=VALUE that a SWOP's host was given, sorted */
  labels: string[];
  /** of an SL that runs rank 0 of its program itself, while hosts run the others: how many there are; else 0 */
  ranks: number;
  /** what the SNs hold on its behalf; docs/reference/limits.md has the limits */
  use: Use;
}

export interface Use {
  /** sessions that have not ended */
  open_sessions: number;
  /** ended sessions that are kept */
  ended_sessions: number;
  /** contracts that its sessions made, and nobody by hand */
  contracts: number;
  /** of its sessions and of layouts that it brought, as they are encoded */
  bytes: number;
}

export interface Ban {
  /** libp2p peer ID of the node key that is shut out */
  peer_id: string;
  /** the node's when it was banned; empty for a key that was not registered */
  name: string;
  /** why, in the operator's words */
  reason: string;
  /** SPIFFE ID of who banned it */
  by: string;
  /** when; RFC 3339, UTC */
  at: string | null;
}

export interface NoQuorum {
  /** how many SNs answer, in words */
  message: string;
  /** what to do about it */
  remedy: string;
  /** that was asked, and shows what it knew last */
  sn: string;
  /** SNs that vote and answer it, itself among them */
  answering: string[];
  /** SNs that vote and do not answer */
  missing: Missing[];
  /** when it last had to do with a raft leader, null if it has not since it started; RFC 3339, UTC */
  leader_seen: string | null;
}

export interface Missing {
  /** the SN's */
  name: string;
  /** HOST:PORT at which other SNs reach it */
  address: string;
}

export interface Candidate {
  /** the SN's */
  name: string;
  /** libp2p peer ID of its node key */
  peer_id: string;
  /** of its SVID; empty if it does not ask now */
  spiffe_id: string;
  /** where it wants to be reached; empty if it does not ask now */
  host: string;
  /** when it began to ask, or was admitted; RFC 3339, UTC */
  since: string | null;
  /** an operator has admitted it */
  admitted: boolean;
  /** SPIFFE ID of that operator */
  admitted_by: string;
}

export interface Invited {
  /** the SN's */
  name: string;
  /** that it must bear */
  spiffe_id: string;
  /** by which the ledger names the invitation */
  number: number;
  /** SPIFFE ID of the operator */
  by: string;
  /** when it was invited; RFC 3339, UTC */
  at: string | null;
  /** until when the invitation can be used; RFC 3339, UTC */
  expires: string | null;
}

export interface NodeFigures {
  /** its name */
  node: string;
  /** sn, sl or swop */
  role: string;
  /** that it says it runs */
  version: string;
  /** as the node reports them; null: not reported */
  figures: Figures;
}

export interface Figures {
  /** when, by the node's clock; RFC 3339, UTC */
  taken_at: string;
  /** for how long the daemon has run */
  up_seconds: number | null;
  /** processors that the daemon may use */
  cpus: number | null;
  /** processes that run or wait to on its machine, mean of the last minute */
  load_1: number | null;
  /** the same of 5 minutes */
  load_5: number | null;
  /** the same of 15 minutes */
  load_15: number | null;
  /** time of processors that the daemon has taken since it began, without its programs */
  daemon_cpu_seconds: number | null;
  /** of its machine */
  memory_total_bytes: number | null;
  /** of it that programs can have without swapping */
  memory_available_bytes: number | null;
  /** that the daemon has in memory (RSS), without its programs */
  daemon_memory_bytes: number | null;
  /** that the daemon sees, at most 64 */
  gpus: GPU[];
  /** of the file system that the node's state directory is on */
  disk_total_bytes: number | null;
  /** of it that the daemon can have */
  disk_free_bytes: number | null;
  /** open streams between this node and others; calls of the API are none */
  streams_opened_by_it: number | null;
  /** the same */
  streams_opened_by_others: number | null;
  /** node keys with which it has a connection for such streams, those of operators among them */
  connected_peers: number | null;
}

export interface GPU {
  /** as its driver calls it; its number where that does not answer */
  name: string;
  /** of the GPU */
  memory_total_bytes: number | null;
  /** of it, by all programs */
  memory_used_bytes: number | null;
  /** of the last moment, in which it computed */
  busy_percent: number | null;
}

export interface Health {
  /** all nodes are that have not left */
  healthy: boolean;
  /** by role and name */
  nodes: NodeHealth[];
  /** nodes that need each other and whose connection is not well, those without one first */
  pairs: Pair[];
  /** groups of nodes between which connections are well: of each two of a group, unless pairs has the two; of other nodes none is needed, or known */
  linked: Linked[];
}

export interface NodeHealth {
  /** the node's; the address of an SN that does not answer and has no known name */
  name: string;
  /** sn, sl or swop */
  role: string;
  /** certificate valid and renewed on schedule, seen by a raft leader within a minute */
  healthy: boolean;
  /** why it is not, in words; empty while it is */
  reason: string;
  /** why it left, empty unless it did: it is not healthy then, and that is no fault */
  left_reason: string;
  /** when it stops being healthy unless its certificate is renewed, null while it is not; RFC 3339, UTC */
  until: string | null;
  /** of its certificate */
  spiffe_id: string;
  /** where its certificate comes from, in its own words */
  source: string;
  /** when its certificate's life began; RFC 3339, UTC */
  svid_not_before: string | null;
  /** when its certificate expires; RFC 3339, UTC */
  svid_not_after: string | null;
  /** when a raft leader last heard of it; RFC 3339, UTC */
  leader_seen: string | null;
  /** for people */
  warnings: string[];
  /** others that it needs a connection with */
  needs: number;
  /** those of them with which one stands */
  reaches: number;
}

export interface Pair {
  /** one of the two nodes */
  a: string;
  /** the other */
  b: string;
  /** none: no connection, and a dial has failed; one way: a connection stands, whoever has opened it, though one of the two, or both, could not open another; not known; refused: one of the two takes no part with the other, as its --allow-peer does not name it or its registration is not proven */
  state: string;
  /** which of the two is not known to have failed to dial, where the other has; it need not have tried; else empty */
  dials: string;
  /** who could not open which host and port, why, and for how long */
  detail: string;
  /** what to do, with the command that checks it; empty: nothing has to be done */
  remedy: string;
}

export interface Linked {
  /** two or more, by name */
  nodes: string[];
}

export interface Contracts {
  /** by name */
  contracts: Contract[];
  /** null, or that too few SNs answer the one that was asked; exit code 7 then */
  no_quorum: NoQuorum | null;
}

export interface Contract {
  /** the contract's */
  name: string;
  /** number of the run, from 1; higher from the start if contracts were deleted before */
  run: number;
  /** uninitialised, enrolling, training, paused, finalising or completed */
  phase: string;
  /** last committed round of this run, 0 before the first */
  round: number;
  /** least number of peers of a round, 0 before the first session */
  min_peers: number;
  /** programs that train */
  open_sessions: number;
  /** programs that have ended */
  ended_sessions: number;
  /** RFC 3339, UTC */
  created: string | null;
}

export interface Status {
  /** the contract's */
  name: string;
  /** number of the run, from 1; higher from the start if contracts were deleted before */
  run: number;
  /** uninitialised, enrolling, training, paused, finalising or completed */
  phase: string;
  /** training is over */
  over: boolean;
  /** how models are merged, empty before the first session */
  method: string;
  /** least number of peers of a round */
  min_peers: number;
  /** peers that the first round waits for, 0 when unknown */
  expected_peers: number;
  /** what "create contract" demands, null when it demands nothing */
  rules: Rules | null;
  /** rounds of this run that were given up, programs going on without a model; null when there was none */
  skips: Skips | null;
  /** the last committed model of this run that no node held any more, null when there was none */
  lost_model: Lost | null;
  /** the last model of this run that SNs took over from SLs, having been restored from a backup that does not know it; null when there was none */
  adopted_round: Adopted | null;
  /** an operator has paused the training, or ends it or has ended it; null: neither */
  halt: Halt | null;
  /** BLAKE3 of the model's layout, in hex */
  layout_digest: string;
  /** why no round runs, empty when one does */
  waiting: string;
  /** RFC 3339, UTC */
  waiting_since: string | null;
  /** it waits for something that should not last; programs that train and a first attempt to merge are no such thing, unless a node of one is dead */
  stuck: boolean;
  /** SN that said this */
  leader: string;
  /** for people */
  warnings: string[];
  /** what is probably wrong with the training of this run, which goes on without an error; among warnings too */
  training_warnings: Warning[];
  /** why the loss and the metric of each peer are hidden by the contract's rule, in words; empty: they are not */
  hidden: string;
  /** what the programs of this run call their metric that say so; empty: none does, or they differ */
  metric_name: string;
  /** the last committed round */
  committed: Round | null;
  /** rounds that the leader remembers, oldest first */
  rounds: Round[];
  /** by node; open and ended ones */
  sessions: Session[];
  /** null, or that too few SNs answer the one that was asked; exit code 7 then */
  no_quorum: NoQuorum | null;
}

export interface Rules {
  /** with all parameters; empty: sessions choose */
  method: string;
  /** 0: sessions choose */
  min_peers: number;
  /** 0: sessions choose */
  expected_peers: number;
  /** SLs without which no round is planned */
  required: string[];
  /** patterns of the SPIFFE IDs whose SLs may take part; none: every SL may */
  allow: string[];
  /** patterns of the SPIFFE IDs whose SLs own parts of the model; none: every SL of a weight above 0 */
  owners: string[];
  /** patterns of the SPIFFE IDs which are shown the loss and the metric of each peer; none: all who may ask */
  curves: string[];
  /** how many nodes merge each part of the model; 0: its owner alone */
  witnesses: number;
  /** 0: none */
  min_weight_share: number;
  /** 0: none */
  weight_cap: number;
  /** swarmctl may fetch models */
  export: boolean;
  /** drop or fail; empty is drop */
  non_finite: string;
  /** check-in mode of sessions whose programs choose none; empty: as their nodes say */
  checkin_default: string;
  /** seconds, 0: as the nodes say */
  quorum_wait: number;
  /** seconds, 0: as the nodes say */
  stall_grace: number;
  /** seconds, 0: none */
  min_peers_timeout: number;
}

export interface Skips {
  /** how many */
  count: number;
  /** the last one; its number is used again */
  round: number;
  /** why that one was given up */
  reason: string;
  /** RFC 3339, UTC */
  at: string | null;
}

export interface Lost {
  /** whose model was lost */
  round: number;
  /** BLAKE3 of the model, in hex */
  digest: string;
  /** whose model training went on from, 0: it began anew */
  resumed_round: number;
  /** RFC 3339, UTC */
  at: string | null;
}

export interface Adopted {
  /** the number that the model has since */
  round: number;
  /** the round in which it was merged */
  proven_round: number;
  /** the last round that the backup knew, 0: none */
  last_round: number;
  /** so many nodes' signatures prove it */
  signed: number;
  /** RFC 3339, UTC */
  at: string | null;
}

export interface Halt {
  /** the next round is the final one, or was; false: the training is paused */
  ends: boolean;
  /** SPIFFE ID of the operator */
  by: string;
  /** since when; RFC 3339, UTC */
  at: string | null;
}

export interface Warning {
  /** UPPER_SNAKE, see docs/reference/warnings.md */
  reason: string;
  /** whom it is about, empty for the contract */
  node: string;
  /** for people, with what to do */
  text: string;
  /** nothing is wrong, but something could be better */
  advice: boolean;
}

export interface Round {
  /** from 1 */
  round: number;
  /** that succeeded, from 1 */
  attempt: number;
  /** BLAKE3 of the merged model, in hex */
  digest: string;
  /** nodes whose models were merged */
  participants: string[];
  /** batches until the next round */
  next_interval: number;
  /** the last round of the training */
  final: boolean;
  /** RFC 3339, UTC */
  planned: string | null;
  /** RFC 3339, UTC */
  committed: string | null;
}

export interface Session {
  /** hex */
  id: string;
  /** the SL's name */
  node: string;
  /** its node is heard of */
  live: boolean;
  /** open, closed (it waits for the final model) or ended */
  state: string;
  /** what the program does now */
  phase: string;
  /** last round whose model it took */
  round: number;
  /** as the program reported it */
  loss: number | null;
  /** as the program reported it */
  metric: number | null;
  /** what the program calls the metric; empty: it does not say */
  metric_name: string;
  /** epochs that it finished */
  epochs_done: number;
  /** epochs that it will train, 0 when unknown */
  total_epochs: number;
  /** how long it still trains, at the pace of the newest 32 rounds that the leader remembers; null when that is not known */
  left_seconds: number | null;
  /** 0 to 100, or its number of samples where the peers say nodeWeightage=samples */
  weight: number;
  /** what it contributes after its training's end: snapshot, active, inactive or once */
  checkin_mode: string;
  /** who chose that where its program did not: rule, node or none; empty: its program */
  checkin_from: string;
  /** how many the program has, with rank 0, while hosts run the others; 0: it is one by itself, or others started them, or the session has ended */
  ranks: number;
  /** it owns no part of a merge (SL_MAKE_ME_ADMIN=False) */
  no_shard: boolean;
  /** what keeps its program in, in its SL's own words: 'container, no network', what was opened, or 'none: process runtime'; empty when it says nothing */
  isolation: string;
  /** why it ended, empty while it has not */
  end_reason: string;
  /** of the program, when its end is the session's */
  exit_code: number;
}

export interface Explain {
  /** the contract's */
  name: string;
  /** number of the run, from 1 */
  run: number;
  /** uninitialised, enrolling, training, paused, finalising or completed */
  phase: string;
  /** last committed round of this run, 0 before the first */
  round: number;
  /** the reason in one line, empty while a round runs */
  waiting: string;
  /** the reason is something that should not last; programs that train and a first attempt to merge are no such thing, unless a node of one is dead */
  stuck: boolean;
  /** line by line, for people */
  explanation: string[];
  /** what is probably wrong with the training of this run; among explanation too */
  training_warnings: Warning[];
  /** null, or that too few SNs answer the one that was asked; exit code 7 then */
  no_quorum: NoQuorum | null;
}

export interface ContractInfo {
  /** the contract's */
  name: string;
  /** RFC 3339, UTC */
  created: string | null;
  /** what "create contract" demands, null when it demands nothing */
  rules: Rules | null;
  /** how models are merged, empty before the first session */
  method: string;
  /** least number of peers of a round, 0 before the first session */
  min_peers: number;
  /** BLAKE3 of the model's layout, in hex; empty before the first session */
  layout_digest: string;
}

export interface Models {
  /** its name */
  contract: string;
  /** number of the run, from 1 */
  run: number;
  /** get model is allowed */
  export: boolean;
  /** newest first */
  models: Model[];
  /** who held the last model, when no node that runs does; else empty */
  note: string;
}

export interface Model {
  /** in which it was committed */
  round: number;
  /** BLAKE3, in hex */
  digest: string;
  /** of the optimiser's state that is held with it, empty if the method has none */
  state_digest: string;
  /** the training ended with it */
  final: boolean;
  /** RFC 3339, UTC; null when the SN does not remember */
  committed: string | null;
  /** nodes that hold it */
  holders: string[];
}

export interface TaskBody {
  /** the task's */
  name: string;
  /** that it has, or will have if it is finalised as it is */
  digest: string;
  /** of its body, from the first */
  lines: string[];
}

export interface Tasks {
  /** ROOTTASK, then the others by name */
  tasks: Task[];
}

export interface Task {
  /** the task's */
  name: string;
  /** RUN_SWARM, MAKE_USER_CONTAINER, PULL_IMAGE, MAKE_SWARM_USER_CONTENT, or ROOT_TASK of ROOTTASK */
  type: string;
  /** as who made it says */
  author: string;
  /** task that must be carried out first, or ROOTTASK */
  prereq: string;
  /** what it makes, such as the name of an image */
  outcome: string;
  /** REGISTERED or FINALIZED */
  status: string;
  /** SHA-256 of all of the above and the body, in hex; empty until it is finalised */
  digest: string;
  /** SPIFFE ID of who made it */
  by: string;
  /** RFC 3339, UTC; null for ROOTTASK */
  created: string | null;
  /** RFC 3339, UTC; null: it is not */
  finalised: string | null;
  /** of its body */
  bytes: number;
}

export interface Assignments {
  /** those first that were made first */
  assignments: AssignmentRow[];
  /** of those that are over the oldest, for which the SN's answer has no room */
  left_out: number;
}

export interface AssignmentRow {
  /** the original's OPERATION_ID */
  id: string;
  /** that is carried out */
  task: string;
  /** the task's; empty: it was deleted */
  task_type: string;
  /** of the task, in hex */
  digest: string;
  /** empty: it has none */
  taskrunner: string;
  /** ID of the assignment beside which hosts carry it out; empty: none */
  joins: string;
  /** the SL that runs rank 0 of a job itself; empty: hosts have all members */
  beside: string;
  /** SPIFFE ID of who asked for it */
  by: string;
  /** waiting, preparing, running, ending or over */
  phase: string;
  /** what is waited for, in words */
  wants: string;
  /** succeeded, failed or cancelled; empty: there is none yet */
  verdict: string;
  /** of the verdict */
  reason: string;
  /** hosts that carry it out */
  members: number;
  /** when it was asked for; RFC 3339, UTC */
  created: string | null;
  /** when the phase changed last */
  changed: string | null;
  /** when it got its verdict; null: it has none */
  ended: string | null;
}

export interface Approvals {
  /** what waits, of the assignment first that was made first */
  approvals: Approval[];
}

export interface Approval {
  /** its ID */
  assignment: string;
  /** its name */
  task: string;
  /** the task's; empty: it was deleted */
  task_type: string;
  /** of the task, in hex */
  digest: string;
  /** empty: it has none */
  taskrunner: string;
  /** that asks */
  host: string;
  /** the SL that runs rank 0 of the job itself, as the SNs say; empty: hosts have all members */
  beside: string;
  /** SPIFFE ID of who asked for the task, as the SNs say */
  by: string;
  /** when the host began to wait; RFC 3339, UTC */
  since: string | null;
  /** the host does not begin it later; RFC 3339, UTC; null: never */
  expires: string | null;
  /** what the host says of it */
  text: string;
}

export interface Jobs {
  /** those first that were begun first */
  runs: JobRun[];
  /** of all assignments that are over the oldest, for which the SN's answer has no room */
  left_out: number;
}

export interface JobRun {
  /** its name */
  job: string;
  /** ID of the run */
  assignment: string;
  /** that has the job: get task body shows it */
  task: string;
  /** of the task, SHA-256 in hex */
  digest: string;
  /** waiting, preparing, running, ending or over */
  phase: string;
  /** what is waited for, in words */
  wants: string;
  /** succeeded, failed or cancelled; empty: there is none yet */
  verdict: string;
  /** why it ended, in one word: entry_done, ttl, stop_file, cancelled, no_capacity, max_runtime, main_timeout, ready_timeout, member_failed, host_lost or refused; empty: it has not */
  end: string;
  /** of the verdict, in words */
  reason: string;
  /** SPIFFE ID of who asked for it */
  by: string;
  /** the SL that runs rank 0 itself; empty: hosts have all members */
  beside: string;
  /** that were placed */
  members: number;
  /** how often members were placed; 0: they were not yet */
  epoch: number;
  /** how often they may be placed anew */
  restarts: number;
  /** when it was asked for; RFC 3339, UTC */
  created: string | null;
  /** when the phase changed last */
  changed: string | null;
  /** when it got its verdict; null: it has none */
  ended: string | null;
}

export interface JobStatus {
  /** of the job */
  run: JobRun;
  /** that may have members */
  hosts: string[];
  /** of the last start, by rank */
  members: JobMember[];
}

export interface JobMember {
  /** its group */
  group: string;
  /** in the job, from 0; from 1 beside an SL, which runs rank 0 itself */
  rank: number;
  /** where it is */
  host: string;
  /** placed, asked, prepared, started, ready, exited, refused, lost or stopped */
  state: string;
  /** it is */
  ready: boolean;
  /** null: it has not ended by itself */
  exit_code: number | null;
  /** what its host says of it */
  text: string;
  /** nothing of it is left on its host */
  cleaned: boolean;
  /** when its state changed last; RFC 3339, UTC */
  changed: string | null;
}

export interface Events {
  /** newest first: at most 1000 that the ledger has, and 1000 that SNs have noticed */
  events: Event[];
  /** that the ledger has */
  records: number;
  /** events of the ledger that are left out, for there are newer ones */
  older: number;
  /** events that SNs have noticed and that are left out, likewise */
  reported_older: number;
  /** why what SNs have noticed could not be asked for, in one line: what is shown of it is old, or nothing; else empty */
  unreported: string;
  /** the chain of the ledger's records is whole, and nothing is wrong with the signatures that were checked */
  good: boolean;
  /** signatures were checked too: --bundle was given */
  signatures: boolean;
  /** what is wrong with the ledger first, in one line; else empty */
  problem: string;
}

export interface Event {
  /** recorded: it is in the ledger; reported: an SN has noticed it, and nothing proves it */
  source: string;
  /** number of the ledger's record, from 1; 0: it is reported */
  record: number;
  /** name of the SN that has noticed what is reported, as the SN says that was asked; empty: it is recorded */
  sn: string;
  /** by the SN that led, or that has noticed it; RFC 3339, UTC */
  time: string | null;
  /** SPIFFE ID of the operator or the node; empty: the SNs judged, or noticed it */
  who: string;
  /** was done or has happened, such as assigned, approved, paused, banned, fell silent, attempt failed */
  what: string;
  /** what it is about: task, contract, node, rights or model */
  kind: string;
  /** name of that */
  about: string;
  /** for people */
  text: string;
}

export interface History {
  /** its name */
  contract: string;
  /** number of the run, from 1 */
  run: number;
  /** runs before the current one of which rounds are kept, ascending */
  earlier: number[];
  /** the rounds are those behind this one, to be merged by their numbers into those that are known: with --after, and on the dashboard's stream; absent: they are all */
  after?: number | null;
  /** oldest first */
  rounds: HistoryRound[];
  /** rounds that are left out between them */
  thinned: number;
  /** what the peers' programs call the metric, by the newest of these rounds that says so; empty: none does, or they differ */
  metric_name: string;
  /** why the loss and the metric of each peer are hidden by the contract's rule, in words; empty: they are not */
  hidden: string;
  /** keys of a round that the SN has in its state and its ledger; nothing was checked here */
  recorded: string[];
  /** keys of a round that nodes have reported, or that are by the clock of the SN that led */
  reported: string[];
}

export interface HistoryRound {
  /** from 1 */
  round: number;
  /** that succeeded, from 1 */
  attempt: number;
  /** RFC 3339, UTC */
  planned: string | null;
  /** RFC 3339, UTC */
  committed: string | null;
  /** of its phases, in milliseconds */
  durations_ms: Phases;
  /** by all peers in the merge */
  bytes_sent: number | null;
  /** by all peers in the merge */
  bytes_received: number | null;
  /** attempts before that which succeeded */
  failed: Failed[];
  /** by node */
  peers: HistoryPeer[];
  /** mean of what the peers reported of the merged model, by their weights */
  loss: number | null;
  /** the same of their metric */
  metric: number | null;
  /** loss and metric are means by weights; false: no weight is known, and they are plain means of the peers that contributed */
  weighted: boolean;
  /** what all peers call the metric that name it; empty: they differ; absent: none does */
  metric_name?: string | null;
  /** BLAKE3 of the merged model, in hex */
  digest: string;
  /** number of the ledger's record that proves it; null: not known, as for a moment after the commit */
  record: number | null;
  /** by which it was merged, as that record has it; empty: not known */
  method: string;
}

export interface Phases {
  /** from when the first peer could merge until the round was planned */
  waiting: number | null;
  /** from the round before until the first peer could merge */
  training: number | null;
  /** from the plan until the last result */
  exchange: number | null;
  /** from the last result until it was committed */
  commit: number | null;
}

export interface Failed {
  /** from 1 */
  attempt: number;
  /** node that it failed by; empty: nobody is known */
  blamed: string;
  /** in words */
  reason: string;
  /** when it was given up; RFC 3339, UTC */
  at: string | null;
}

export interface HistoryPeer {
  /** the SL's name */
  node: string;
  /** as its program reported it; null: it did not */
  loss: number | null;
  /** the same */
  metric: number | null;
  /** what its program calls the metric, where that is not the round's */
  metric_name?: string;
  /** of its model in the merge */
  weight: number | null;
  /** its model was merged */
  contributed: boolean;
  /** bytes that it sent in merges since the round before */
  sent: number | null;
  /** the same that it received */
  received: number | null;
}

export interface Proof {
  /** its name */
  contract: string;
  /** number of the run: the newest, or that which was asked for */
  run: number;
  /** that made the model */
  round: number;
  /** verified; unchecked: the ledger is a whole chain and has this model, and signatures were not checked, for no --bundle was given; bad: something is wrong */
  state: string;
  /** what is wrong, a line each, those of this round first, at most 10 */
  problems: string[];
  /** BLAKE3 of the model, in hex */
  digest: string;
  /** BLAKE3 of its layout, in hex */
  layout_digest: string;
  /** of the merge */
  method: string;
  /** that operators had given the contract when it was committed, the last ones; null: none */
  rules: RuleSet | null;
  /** the same in words; empty: they demand nothing */
  rules_text: string;
  /** number of the ledger's record, from 1 */
  record: number;
  /** when it was committed, by the SN that led; RFC 3339, UTC */
  at: string | null;
  /** hash of the ledger's last record */
  head: string;
  /** that were read and form a chain */
  records: number;
  /** whose models were merged, in the order of the sum */
  participants: ProofPart[];
}

export interface RuleSet {
  /** number of the ledger's record */
  record: number;
  /** when, by the SN that led; RFC 3339, UTC */
  at: string | null;
  /** SPIFFE ID of who signed them */
  by: string;
  /** from which on they bind */
  run: number;
  /** null when they demand nothing */
  rules: Rules | null;
}

export interface ProofPart {
  /** its name */
  node: string;
  /** that it registered with */
  spiffe_id: string;
  /** libp2p peer ID of its node key */
  peer_id: string;
  /** of its model */
  weight: number;
  /** of the weight of all, 0 to 1 */
  share: number;
  /** its signature was checked, and is good */
  signed: boolean;
  /** what is wrong with its part, in one line; else empty */
  problem: string;
}

export interface Logs {
  /** its ID; empty: these are logs of nodes themselves */
  assignment: string;
  /** those of one program in their order */
  lines: LogLine[];
}

/** What the documents hold, by their names; a name that ends in / has that of something behind it. */
export interface DocumentValues {
  "swarm": Swarm;
  "nodes": Nodes;
  [name: `node/${string}`]: NodeFigures;
  "health": Health;
  "contracts": Contracts;
  [name: `contract/${string}`]: Status;
  [name: `explain/${string}`]: Explain;
  [name: `info/${string}`]: ContractInfo;
  [name: `models/${string}`]: Models;
  [name: `body/${string}`]: TaskBody;
  "tasks": Tasks;
  "assignments": Assignments;
  "approvals": Approvals;
  "jobs": Jobs;
  [name: `job/${string}`]: JobStatus;
  "events": Events;
  [name: `history/${string}`]: History;
  [name: `proof/${string}`]: Proof;
  [name: `logs/${string}`]: Logs;
}
