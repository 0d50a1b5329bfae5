package policy

import (
	"fmt"
	"path"

	"go.yaml.in/yaml/v3"

	"github.com/swarmd/swarmd/internal/text"
)

// forwardsKey says to whom ports of members of jobs may be forwarded.
const forwardsKey = "forwards"

// forwards reads to whom ports may be forwarded.
func (r *reader) forwards(p *Policy, v *yaml.Node) {
	p.forwards = r.patterns(forwardsKey, v)
	names := text.Clip(p.forwards.String(), maxReason/2)
	if len(p.forwards) == 0 {
		names = "nobody"
	}
	p.forwardsAt = Source{File: r.file, Line: v.Line, Text: forwardsKey + ": " + names}
}

// ForwardsTo returns why ports of what runs here may not be forwarded to a SPIFFE ID, in one line with a remedy; nil if they may. It must be one
// that the host has verified. Nobody has that right whom the owner has not named.
func (p *Policy) ForwardsTo(to string) error {
	if p.forwards.Match(to) {
		return nil
	}
	rule := "its policy names nobody to whom they are"
	if p.forwardsAt.Text != "" {
		at := p.forwardsAt
		at.File = path.Base(at.File)
		rule = at.String()
	}
	return fmt.Errorf("ports of jobs on this host are not forwarded to %s: %s; to have them forwarded, %s", to, rule, p.addTo(forwardsKey))
}
