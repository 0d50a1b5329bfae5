package swci

import "strconv"

// documentKind is a kind of document that the dashboard shows: what a command prints as JSON, or what the dashboard makes itself.
type documentKind struct {
	name  string // "nodes", or "contract/" with the name of something behind it
	line  string // the command, before the name; empty: the dashboard makes it
	with  string // its option
	value any    // zero value of what it holds
	once  bool   // it is made when a page asks, and no stream has it
	slow  bool   // it may take minutes
	told  bool   // it is of the swarm's state alone
	apart bool   // it is of nodes and how they are, whatever the state is
	node  bool   // one node is asked, and its owner decides who gets an answer: seldom, and the page says in its place why there is none
}

// documentKinds are all documents of the dashboard.
func documentKinds() []documentKind {
	return []documentKind{
		{name: "swarm", value: swarmJSON{}, apart: true},
		{name: "nodes", line: "list nodes", value: nodesJSON{}, apart: true},
		{name: "node/", line: "get node", value: nodeFiguresJSON{}, slow: true, node: true},
		{name: "health", line: "get health", value: healthJSON{}, apart: true},
		{name: "contracts", line: "list contracts", value: contractsJSON{}, told: true},
		{name: "contract/", line: "get contract status", with: "--rounds=" + strconv.Itoa(paceRounds), value: statusJSON{}},
		{name: "explain/", line: "explain contract", value: explainJSON{}},
		{name: "info/", line: "get contract info", value: contractInfoJSON{}, told: true},
		{name: "models/", line: "list models", value: modelsJSON{}},
		{name: "body/", line: "get task body", value: taskBodyJSON{}, once: true},
		{name: "tasks", line: "list tasks", value: tasksJSON{}, told: true},
		{name: "assignments", line: "list assignments", value: assignmentsJSON{}, told: true},
		{name: "approvals", line: "list approvals", value: approvalsJSON{}, told: true},
		{name: "jobs", line: "list jobs", value: jobsJSON{}, told: true},
		{name: "job/", line: "get job status", value: jobStatusJSON{}, told: true},
		{name: "events", value: eventsJSON{}, slow: true},
		{name: "history/", line: "get contract history", value: historyJSON{}},
		{name: "proof/", value: proofJSON{}, once: true, slow: true},
		{name: "logs/", line: "get logs", value: logsJSON{}, once: true, slow: true},
	}
}

// swarmJSON is what the dashboard says of the swarm and of who looks at it.
type swarmJSON struct {
	SwarmID  string             `json:"swarm_id" doc:"the swarm's"`
	Epoch    uint64             `json:"epoch" doc:"how often its group of SNs was founded, from 1"`
	SN       string             `json:"sn" doc:"address of the SN that was asked, HOST:PORT"`
	SNs      []swarmSNJSON      `json:"sns" doc:"all SNs, by name"`
	Leader   string             `json:"leader" doc:"name of the raft leader, empty while there is none"`
	Version  string             `json:"version" doc:"what the SN that was asked was built as"`
	Own      string             `json:"own_version" doc:"what the dashboard's swarmctl was built as"`
	Context  string             `json:"context" doc:"name of the context that is used, empty for none"`
	Identity ownJSON            `json:"identity" doc:"in whose name the swarm is asked"`
	Actions  bool               `json:"actions" doc:"the page may approve and refuse tasks: --actions was given"`
	Rights   []missingRightJSON `json:"rights" doc:"what this identity may not see"`
}

type swarmSNJSON struct {
	Name    string `json:"name" doc:"the SN's"`
	Address string `json:"address" doc:"of its API, HOST:PORT"`
	Live    bool   `json:"live" doc:"it is heard of"`
}

type ownJSON struct {
	SpiffeID  string  `json:"spiffe_id" doc:"of the SVID; empty: there is none now"`
	NotBefore *string `json:"not_before" doc:"when its life began; RFC 3339, UTC"`
	NotAfter  *string `json:"not_after" doc:"when it expires; RFC 3339, UTC"`
}

type missingRightJSON struct {
	Document string `json:"document" doc:"that can't be shown"`
	Error    string `json:"error" doc:"why, in one line"`
	Remedy   string `json:"remedy" doc:"what to do about it"`
}

// eventsJSON is what happened in the swarm, by its ledger and by what SNs have noticed.
type eventsJSON struct {
	Events        []eventJSON `json:"events" doc:"newest first: at most 1000 that the ledger has, and 1000 that SNs have noticed"`
	Records       uint64      `json:"records" doc:"that the ledger has"`
	Older         uint64      `json:"older" doc:"events of the ledger that are left out, for there are newer ones"`
	ReportedOlder uint32      `json:"reported_older" doc:"events that SNs have noticed and that are left out, likewise"`
	Unreported    string      `json:"unreported" doc:"why what SNs have noticed could not be asked for, in one line: what is shown of it is old, or nothing; else empty"`
	Good          bool        `json:"good" doc:"the chain of the ledger's records is whole, and nothing is wrong with the signatures that were checked"`
	Signed        bool        `json:"signatures" doc:"signatures were checked too: --bundle was given"`
	Problem       string      `json:"problem" doc:"what is wrong with the ledger first, in one line; else empty"`
}

type eventJSON struct {
	Source string  `json:"source" doc:"recorded: it is in the ledger; reported: an SN has noticed it, and nothing proves it"`
	Record uint64  `json:"record" doc:"number of the ledger's record, from 1; 0: it is reported"`
	SN     string  `json:"sn" doc:"name of the SN that has noticed what is reported, as the SN says that was asked; empty: it is recorded"`
	Time   *string `json:"time" doc:"by the SN that led, or that has noticed it; RFC 3339, UTC"`
	Who    string  `json:"who" doc:"SPIFFE ID of the operator or the node; empty: the SNs judged, or noticed it"`
	What   string  `json:"what" doc:"was done or has happened, such as assigned, approved, paused, banned, fell silent, attempt failed"`
	Kind   string  `json:"kind" doc:"what it is about: task, contract, node, rights or model"`
	About  string  `json:"about" doc:"name of that"`
	Text   string  `json:"text" doc:"for people"`
}

// historyJSON is `get contract history NAME -o json`.
type historyJSON struct {
	Contract string             `json:"contract" doc:"its name"`
	Run      uint64             `json:"run" doc:"number of the run, from 1"`
	Earlier  []uint64           `json:"earlier" doc:"runs before the current one of which rounds are kept, ascending"`
	After    *uint64            `json:"after,omitempty" doc:"the rounds are those behind this one, to be merged by their numbers into those that are known: with --after, and on the dashboard's stream; absent: they are all"`
	Rounds   []historyRoundJSON `json:"rounds" doc:"oldest first"`
	Thinned  uint64             `json:"thinned" doc:"rounds that are left out between them"`
	Metric   string             `json:"metric_name" doc:"what the peers' programs call the metric, by the newest of these rounds that says so; empty: none does, or they differ"`
	Hidden   string             `json:"hidden" doc:"why the loss and the metric of each peer are hidden by the contract's rule, in words; empty: they are not"`
	Recorded []string           `json:"recorded" doc:"keys of a round that the SN has in its state and its ledger; nothing was checked here"`
	Reported []string           `json:"reported" doc:"keys of a round that nodes have reported, or that are by the clock of the SN that led"`
}

type historyRoundJSON struct {
	Round         uint64            `json:"round" doc:"from 1"`
	Attempt       uint64            `json:"attempt" doc:"that succeeded, from 1"`
	Planned       *string           `json:"planned" doc:"RFC 3339, UTC"`
	Committed     *string           `json:"committed" doc:"RFC 3339, UTC"`
	Durations     phasesJSON        `json:"durations_ms" doc:"of its phases, in milliseconds"`
	BytesSent     *uint64           `json:"bytes_sent" doc:"by all peers in the merge"`
	BytesReceived *uint64           `json:"bytes_received" doc:"by all peers in the merge"`
	Failed        []failedJSON      `json:"failed" doc:"attempts before that which succeeded"`
	Peers         []historyPeerJSON `json:"peers" doc:"by node"`
	Loss          *float64          `json:"loss" doc:"mean of what the peers reported of the merged model, by their weights"`
	Metric        *float64          `json:"metric" doc:"the same of their metric"`
	Weighted      bool              `json:"weighted" doc:"loss and metric are means by weights; false: no weight is known, and they are plain means of the peers that contributed"`
	MetricName    *string           `json:"metric_name,omitempty" doc:"what all peers call the metric that name it; empty: they differ; absent: none does"`
	Digest        string            `json:"digest" doc:"BLAKE3 of the merged model, in hex"`
	Record        *uint64           `json:"record" doc:"number of the ledger's record that proves it; null: not known, as for a moment after the commit"`
	Method        string            `json:"method" doc:"by which it was merged, as that record has it; empty: not known"`
}

type phasesJSON struct {
	Waiting  *uint64 `json:"waiting" doc:"from when the first peer could merge until the round was planned"`
	Training *uint64 `json:"training" doc:"from the round before until the first peer could merge"`
	Exchange *uint64 `json:"exchange" doc:"from the plan until the last result"`
	Commit   *uint64 `json:"commit" doc:"from the last result until it was committed"`
}

type failedJSON struct {
	Attempt uint64  `json:"attempt" doc:"from 1"`
	Blamed  string  `json:"blamed" doc:"node that it failed by; empty: nobody is known"`
	Reason  string  `json:"reason" doc:"in words"`
	At      *string `json:"at" doc:"when it was given up; RFC 3339, UTC"`
}

type historyPeerJSON struct {
	Node        string   `json:"node" doc:"the SL's name"`
	Loss        *float64 `json:"loss" doc:"as its program reported it; null: it did not"`
	Metric      *float64 `json:"metric" doc:"the same"`
	MetricName  string   `json:"metric_name,omitempty" doc:"what its program calls the metric, where that is not the round's"`
	Weight      *uint32  `json:"weight" doc:"of its model in the merge"`
	Contributed bool     `json:"contributed" doc:"its model was merged"`
	Sent        *uint64  `json:"sent" doc:"bytes that it sent in merges since the round before"`
	Received    *uint64  `json:"received" doc:"the same that it received"`
}
