package top

import (
	"encoding/json"
	"fmt"
	"strings"
)

// What follows is what the screen takes of the documents that the dashboard has too; the names of their keys are those of swarmctl's JSON.

// Swarm is what document swarm says of the swarm and of who looks at it.
type Swarm struct {
	SwarmID string         `json:"swarm_id"`
	Epoch   uint64         `json:"epoch"`
	Leader  string         `json:"leader"`
	Context string         `json:"context"`
	Rights  []MissingRight `json:"rights"`
}

// MissingRight is a document that this identity may not see.
type MissingRight struct {
	Document string `json:"document"`
	Error    string `json:"error"`
	Remedy   string `json:"remedy"`
}

// Nodes is document nodes.
type Nodes struct {
	Nodes    []Node    `json:"nodes"`
	NoQuorum *NoQuorum `json:"no_quorum"`
}

// Node is a registered node.
type Node struct {
	Name     string  `json:"name"`
	Role     string  `json:"role"`
	Host     string  `json:"host"`
	Banned   bool    `json:"banned"`
	State    string  `json:"state"`
	Since    *string `json:"live_since"`
	Sentinel bool    `json:"sentinel"`
	Leader   bool    `json:"leader"`
	Runtime  string  `json:"runtime"`
	Version  string  `json:"version"`
	Needs    int     `json:"needs"`
	Reaches  int     `json:"reaches"`
	CPUs     uint64  `json:"cpus"`
	Memory   uint64  `json:"memory_bytes"`
	GPUs     uint64  `json:"gpus"`
}

// NoQuorum says that too few SNs answer the one that was asked.
type NoQuorum struct {
	Message string `json:"message"`
	Remedy  string `json:"remedy"`
}

// Health is document health.
type Health struct {
	Nodes []NodeHealth `json:"nodes"`
}

// NodeHealth is how a node is.
type NodeHealth struct {
	Name       string  `json:"name"`
	Healthy    bool    `json:"healthy"`
	Reason     string  `json:"reason"`
	LeftReason string  `json:"left_reason"`
	Seen       *string `json:"leader_seen"`
}

// Contracts is document contracts.
type Contracts struct {
	Contracts []Contract `json:"contracts"`
}

// Contract is one of a swarm's contracts.
type Contract struct {
	Name  string `json:"name"`
	Phase string `json:"phase"`
	Open  int    `json:"open_sessions"`
}

// Status is document contract/NAME.
type Status struct {
	Name      string    `json:"name"`
	Run       uint64    `json:"run"`
	Phase     string    `json:"phase"`
	Over      bool      `json:"over"`
	Method    string    `json:"method"`
	MinPeers  int       `json:"min_peers"`
	Waiting   string    `json:"waiting"`
	Stuck     bool      `json:"stuck"`
	Halt      *Halt     `json:"halt"`
	Skips     *Skips    `json:"skips"`
	Committed *Round    `json:"committed"`
	Metric    string    `json:"metric_name"`
	Sessions  []Session `json:"sessions"`
	NoQuorum  *NoQuorum `json:"no_quorum"`
}

// Halt says that an operator has paused the training, or ends it.
type Halt struct {
	Ends bool `json:"ends"`
}

// Skips are rounds that were given up.
type Skips struct {
	Count  uint64  `json:"count"`
	Round  uint64  `json:"round"`
	Reason string  `json:"reason"`
	At     *string `json:"at"`
}

// Round is a committed round.
type Round struct {
	Round     uint64  `json:"round"`
	Final     bool    `json:"final"`
	Committed *string `json:"committed"`
}

// Session is a program that takes part, or did.
type Session struct {
	Node      string   `json:"node"`
	Live      bool     `json:"live"`
	State     string   `json:"state"`
	Phase     string   `json:"phase"`
	Round     uint64   `json:"round"`
	Loss      *float64 `json:"loss"`
	Metric    *float64 `json:"metric"`
	Done      uint64   `json:"epochs_done"`
	Total     uint64   `json:"total_epochs"`
	Left      *float64 `json:"left_seconds"`
	Weight    uint64   `json:"weight"`
	Isolation string   `json:"isolation"`
	End       string   `json:"end_reason"`
}

// Explain is document explain/NAME.
type Explain struct {
	Lines    []string  `json:"explanation"`
	Warnings []Warning `json:"training_warnings"`
}

// Warning is what is probably wrong with a training.
type Warning struct {
	Text   string `json:"text"`
	Advice bool   `json:"advice"`
}

// HistoryRound is a committed round, as nodes have reported it.
type HistoryRound struct {
	Round     uint64        `json:"round"`
	Durations Phases        `json:"durations_ms"`
	Sent      *uint64       `json:"bytes_sent"`
	Failed    []Failed      `json:"failed"`
	Peers     []HistoryPeer `json:"peers"`
	Loss      *float64      `json:"loss"`
	Metric    *float64      `json:"metric"`
	Called    *string       `json:"metric_name"` // the metric; nil: nobody says, empty: peers differ
}

// Phases are how long those of a round took, in milliseconds.
type Phases struct {
	Waiting  *uint64 `json:"waiting"`
	Training *uint64 `json:"training"`
	Exchange *uint64 `json:"exchange"`
	Commit   *uint64 `json:"commit"`
}

// Failed is an attempt that failed.
type Failed struct {
	Attempt uint64  `json:"attempt"`
	Blamed  string  `json:"blamed"`
	Reason  string  `json:"reason"`
	At      *string `json:"at"`
}

// HistoryPeer is one peer in a round.
type HistoryPeer struct {
	Node     string  `json:"node"`
	Sent     *uint64 `json:"sent"`
	Received *uint64 `json:"received"`
}

// known is what the screen knows; nil: not yet.
type known struct {
	swarm     *Swarm
	nodes     *Nodes
	health    *Health
	contracts *Contracts
	status    *Status
	explain   *Explain
	history   *History
}

// document reads a document's value: what take takes.
func document(name string, value json.RawMessage) (any, error) {
	kind, _, _ := strings.Cut(name, "/")
	switch kind {
	case "swarm":
		return decoded[Swarm](value)
	case "nodes":
		return decoded[Nodes](value)
	case "health":
		return decoded[Health](value)
	case "contracts":
		return decoded[Contracts](value)
	case "contract":
		return decoded[Status](value)
	case "explain":
		return decoded[Explain](value)
	}
	return decoded[History](value)
}

// take puts what was read where it belongs.
func (k *known) take(what any) {
	switch d := what.(type) {
	case *Swarm:
		k.swarm = d
	case *Nodes:
		k.nodes = d
	case *Health:
		k.health = d
	case *Contracts:
		k.contracts = d
	case *Status:
		k.status = d
	case *Explain:
		k.explain = d
	case *History:
		k.history = d.joined(k.history)
	}
}

// drop forgets what was known of a contract by a document, or of all its documents.
func (k *known) drop(name string) {
	kind, _, _ := strings.Cut(name, "/")
	switch kind {
	case "contract":
		k.status = nil
	case "explain":
		k.explain = nil
	case "history":
		k.history = nil
	case "":
		k.status, k.explain, k.history = nil, nil, nil
	}
}

func decoded[T any](value json.RawMessage) (*T, error) {
	v := new(T)
	if err := json.Unmarshal(value, v); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return v, nil
}
