package logs

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/swarmd/swarmd/identity/pattern"
)

// None stands for nobody where patterns of readers are named.
const None = "none"

// Readers reads to whom the log of a node may go that has no policy: patterns of SPIFFE IDs, or None alone. Without any these are the
// operators of a trust domain. What it returns says why a log may not go to a SPIFFE ID; nil: it may.
func Readers(domain string, named []string) (func(by string) error, error) {
	rule := "--logs-to"
	var all pattern.List
	switch {
	case len(named) == 0:
		own, err := pattern.Parse("spiffe://" + domain + "/swarm/swci/**")
		if err != nil {
			return nil, err
		}
		all, rule = pattern.List{own}, "by default"
	case len(named) == 1 && named[0] == None:
	default:
		if len(named) > pattern.MaxList {
			return nil, fmt.Errorf("--logs-to: %d patterns, at most %d", len(named), pattern.MaxList)
		}
		for _, text := range named {
			one, err := pattern.Parse(text)
			if text == None {
				err = errors.New("none stands alone, or not at all")
			}
			if err != nil {
				return nil, fmt.Errorf("--logs-to: %w", err)
			}
			all = append(all, one)
		}
	}
	return func(by string) error {
		if all.Match(by) {
			return nil
		}
		who := all.String()
		if len(all) == 0 {
			who = "nobody: if a task has started it, ask for the log of the task"
		}
		return fmt.Errorf("its log does not go to %s: %s it goes to %s; to let it, start the node with --logs-to", by, rule, who)
	}, nil
}

// OfNode returns a host for a node that hands out its own log only, to readers as Readers reads them; nil: the node keeps none.
func OfNode(v Verifier, named []string, own Source, send Send, log *slog.Logger) (*Host, error) {
	svid, err := v.Source.GetX509SVID()
	if err != nil {
		return nil, fmt.Errorf("get own SVID: %w", err)
	}
	allow, err := Readers(svid.ID.TrustDomain().Name(), named)
	if own == nil {
		own = NewRing(0)
	}
	return NewHost(Config{Verifier: v, Allow: allow, Logs: own, Send: send, Log: log}), err
}
