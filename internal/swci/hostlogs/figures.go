package hostlogs

import (
	"context"
	"fmt"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/figures"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/internal/version"
)

// Figures are what a node says that its machine and its daemon have and use.
type Figures = figures.Figures

// figuresTimeout is how long a node may take that goes on saying something: one that is silent is given up before.
const figuresTimeout = 30 * time.Second

// Figures asks a node for its figures: through SNs, or an SN itself. What comes is held to its bounds, and safe to show.
func (q Query) Figures(ctx context.Context, api client.Operator, n *swarmv1.Node) (f Figures, err error) {
	ctx, cancel := context.WithTimeout(ctx, figuresTimeout)
	defer cancel()
	var sent []byte
	read := func(api client.Operator) error {
		return client.Logs{By: api, Node: n.GetName(), Role: identity.Role(n.GetRole())}.Read(ctx, &swarmv1.LogPart{Figures: true}, func(lines []*swarmv1.LogLine) error {
			for _, l := range lines {
				if len(sent)+len(l.GetText()) > figures.MaxSize {
					return unshown(n, fmt.Errorf("they have more than %d bytes", figures.MaxSize))
				}
				sent = append(sent, l.GetText()...)
			}
			return nil
		})
	}
	if n.GetRole() == string(identity.RoleSN) {
		err = q.itself(ctx, n, read)
	} else {
		err = read(api)
	}
	if client.Reason(err) == client.ReasonHostSilent {
		return Figures{}, silent(n)
	}
	if err != nil {
		return Figures{}, err
	}
	if f, err = figures.Read(sent); err != nil {
		return Figures{}, unshown(n, err)
	}
	return f, nil
}

// unshown is the error of a node that says something else than figures.
func unshown(n *swarmv1.Node, why error) error {
	return exit.New(exit.Failed, "update it, or swarmctl, to the same version", "%s reports figures that can't be shown, as %s: %w", n.GetName(), versions(n), why)
}

// silent is the error of a node that does not answer. One of before there were figures can't.
func silent(n *swarmv1.Node) error {
	return exit.New(exit.TimedOut, "update it if its version is older than swarmctl's, which reports no figures; else see: swarmctl get health", "%s has not answered, as %s", n.GetName(), versions(n))
}

// versions says what a node and this program were built as.
func versions(n *swarmv1.Node) string {
	its := text.Clip(text.Line(n.GetVersion()), 80)
	if its == "" {
		its = "an unknown version"
	}
	return fmt.Sprintf("it runs %s and swarmctl is %s", its, version.Read())
}
