package peering

import (
	"fmt"
	"log/slog"
	"net"
	"sync"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

// DialledBack hears from heartbeats whether an SN reaches this node, and logs it when it changes. Safe for concurrent use.
type DialledBack struct {
	Log *slog.Logger

	mu   sync.Mutex
	at   int64  // of the last that was heard
	said string // of it
}

func (b *DialledBack) seen() int64 {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at
}

// take logs what is new: a node registers again with each SVID, and hears the same most times.
func (b *DialledBack) take(d *swarmv1.DialBack) {
	if b == nil || d == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	said := fmt.Sprintf("%q %q %q", d.GetAnswer(), d.GetCause(), d.GetAddress())
	same := said == b.said
	b.at, b.said = d.GetAtUnixMs(), said
	if same {
		return
	}
	at, sn := shownAddress(d.GetAddress()), shownAddress(d.GetSn())
	_, port, _ := net.SplitHostPort(at)
	switch d.GetAnswer() {
	case "yes":
		b.Log.Info("an SN reaches this node", "sn", sn, "address", at)
	case "no":
		b.Log.Warn("an SN can't reach this node", "sn", sn, "address", at, "cause", shownAddress(d.GetCause()),
			"remedy", fmt.Sprintf("open TCP %s inbound here, or register another address with --host-ip; other SLs that this node can dial still merge with it; check from another host: swarmctl identity check %s", port, at))
	case "not tried":
		b.Log.Warn("no SN has tried to reach this node", "sn", sn, "address", at, "cause", shownAddress(d.GetCause()),
			"remedy", "register an address that others reach, and that stays, with --host-ip: check from another host: swarmctl identity check "+at)
	case "other key":
		b.Log.Warn("another node answers at this node's address", "sn", sn, "address", at,
			"remedy", "let --host-ip and --sl-fs-port lead to this node: check from another host: swarmctl identity check "+at)
	}
}
