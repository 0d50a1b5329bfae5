package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/identity/pattern"
	"github.com/swarmd/swarmd/internal/logs"
	"github.com/swarmd/swarmd/internal/membership"
	"github.com/swarmd/swarmd/internal/peering"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/runner"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/internal/swop"
	"github.com/swarmd/swarmd/internal/work"
)

// Common is what every role needs.
type Common struct {
	Name string // unique in the swarm
	Host string // address or host name under which the other nodes reach this one
	// SwarmID pins the swarm beforehand; empty: the state directory's, else learned at first contact.
	SwarmID      string
	TrustDomains []string // foreign trust domains that are accepted beside the own one
	SPIFFEPrefix identity.Prefix
	StateDir     string // made 0700 if missing
	SocketPath   string // SPIFFE Workload API; used without OpenIdentity
	// OpenIdentity opens the source of the node's identity and waits for the first one; ctx bounds only that. The node
	// closes the source. Nil: the Workload API at SocketPath.
	OpenIdentity func(ctx context.Context, role identity.Role, name string) (identity.Provider, error)
	Log          *slog.Logger
	OwnLog       logs.Source // what Log has written last, for operators who ask for it; nil: nothing is kept
	// LogsTo says to whom it goes, if no policy does: see logs.Readers.
	LogsTo  []string
	Metrics string // HOST:PORT where metrics are served; empty: nowhere
	// MetricsLocal says that Metrics is a container's, and published on loopback of its host.
	MetricsLocal bool
}

// Identify opens the source of the node's identity and waits for the first one; ctx bounds only that. The caller closes the source.
func (c Common) Identify(ctx context.Context, role identity.Role) (identity.Provider, error) {
	if c.OpenIdentity != nil {
		return c.OpenIdentity(ctx, role, c.Name)
	}
	source, err := identity.OpenSource(ctx, identity.SourceConfig{Socket: c.SocketPath, Role: role, Name: c.Name, Prefix: c.SPIFFEPrefix, Log: c.Log})
	if err != nil {
		return nil, err // not the nil *WorkloadSource, which would be a Provider that is not nil
	}
	return source, nil
}

// Validate finds what can be wrong with values of any form, by the options that give them.
func (c Common) Validate() error {
	var errs []error
	if err := naming.CheckNode(c.Name); err != nil {
		errs = append(errs, fmt.Errorf("--name: %w", err))
	}
	if c.SwarmID != "" {
		if err := identity.ValidSwarmID(c.SwarmID); err != nil {
			errs = append(errs, fmt.Errorf("--swarm-id: %w", err))
		}
	}
	if _, err := logs.Readers("own.example", c.LogsTo); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// SNConfig describes a Swarm Network node.
type SNConfig struct {
	Common
	membership.Options
	QuorumWait time.Duration // 0: the default of 30 s
	StallGrace time.Duration // 0: the default of 60 s
}

// SLConfig describes a Swarm Learning node.
type SLConfig struct {
	Common
	runner.Spec
	SNs           []string // HOST:PORT of the APIs to begin with; those that the node has learned are kept in StateDir
	FSPort        int
	ExpectedPeers int
	// CheckinDefault is the check-in mode of a program that chooses none, unless the contract's rules have one; empty: none.
	CheckinDefault string
	// AllowPeers says whose nodes this one takes part with, as an owner and as a contributor; empty: every SL that it accepts.
	AllowPeers pattern.List
	MaxModel   int64 // bytes of the model that a program may declare; 0: only memory and disk bound it
	Timeouts   session.Timeouts
	Part       *peering.Part // what a host of tasks has started the node for, as heartbeats are to say; nil: nobody has
}

// SWOPConfig describes an operator node, which carries out tasks on its host.
type SWOPConfig struct {
	Common
	swop.Place
	SNs     []string   // HOST:PORT of the APIs to begin with; those that the node has learned are kept in StateDir
	Runtime string     // of the node, as others are told: process or docker
	Offer   task.Offer // what it takes tasks for
	Files   swop.FilePort
	// Policy reads what the host's owner says about tasks, for a host of a trust domain.
	Policy func(domain string) (*policy.Policy, error)
	Types  func(swop.Given) map[string]work.Type // how tasks are carried out, by their type
}
