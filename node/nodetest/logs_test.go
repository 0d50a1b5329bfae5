package nodetest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/figures"
	"github.com/swarmd/swarmd/node/nodetest"
)

// errEnough ends a log that is followed.
var errEnough = errors.New("enough")

// TestLogsOfNodes: an operator reads the logs of nodes by way of SNs, follows one while the SN that leads changes, and hears of a node that is
// gone.
func TestLogsOfNodes(t *testing.T) {
	history(t, nodetest.Config{SNs: 3, SLs: 3, Late: three}, func(t *testing.T, s *nodetest.Swarm) {
		read := func(name string, role identity.Role, follow bool, fn func(line string) error) (got []string, err error) {
			part := &swarmv1.LogPart{Tail: 10, Follow: follow}
			err = client.Logs{By: s.Operator(), Node: name, Role: role}.Read(t.Context(), part, func(lines []*swarmv1.LogLine) error {
				for _, l := range lines {
					got = append(got, l.GetText())
					if err := fn(l.GetText()); err != nil {
						return err
					}
				}
				return nil
			})
			return got, err
		}
		all := func(string) error { return nil }
		s.Say("sl-0", "the first line")
		if got, err := read("sl-0", identity.RoleSL, false, all); client.Reason(err) != "NODE_UNKNOWN" {
			t.Errorf("of a node that is not there: %q, %v", got, err)
		}
		time.Sleep(time.Minute) // virtual: all SNs vote
		s.Restart("sl-0")
		alive := func() bool {
			time.Sleep(500 * time.Millisecond)
			nodes, err := s.Operator().ListNodes(t.Context())
			return err == nil && slices.ContainsFunc(nodes.GetNodes(), func(n *swarmv1.Node) bool { return n.GetName() == "sl-0" && n.GetLive() })
		}
		s.Until("the SL to be there", alive)
		if got, err := read("sl-0", identity.RoleSL, false, all); err != nil || !slices.Equal(got, []string{"the first line"}) {
			t.Errorf("of an SL: %q, %v", got, err)
		}
		ofNode := func(name string, role identity.Role) (f figures.Figures, err error) {
			var sent []byte
			err = client.Logs{By: s.Operator(), Node: name, Role: role}.Read(t.Context(), &swarmv1.LogPart{Figures: true}, func(lines []*swarmv1.LogLine) error {
				for _, l := range lines {
					sent = append(sent, l.GetText()...)
				}
				return nil
			})
			if err == nil {
				f, err = figures.Read(sent)
			}
			return f, err
		}
		if f, err := ofNode("sl-0", identity.RoleSL); err != nil || f.CPUs == nil || f.DiskTotal == nil || f.StreamsIn == nil || f.StreamsOut == nil {
			t.Errorf("figures of an SL: %+v, %v", f, err)
		}
		got, err := read("sl-0", identity.RoleSL, true, func(line string) error {
			switch line {
			case "the first line":
				led := s.Leader()
				s.Crash(led)
				s.Say("sl-0", "the second line")
				time.AfterFunc(20*time.Second, func() { s.Say("sl-0", "the last line") })
			case "the last line":
				return errEnough
			}
			return nil
		})
		if !errors.Is(err, errEnough) || !slices.Equal(got, []string{"the first line", "the second line", "the last line"}) {
			t.Errorf("followed: %q, %v", got, err)
		}
		got, err = read("sl-0", identity.RoleSL, true, func(line string) error {
			if line == "the last line" {
				s.Crash("sl-0")
			}
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), "sl-0 says nothing any more") {
			t.Errorf("of an SL that is gone: %q, %v", got, err)
		}
		own := 0
		for _, sn := range []string{"sn-0", "sn-1", "sn-2"} {
			s.Say(sn, "of "+sn)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			err := client.Logs{By: s.Operator(), Node: sn, Role: identity.RoleSN}.Read(ctx, &swarmv1.LogPart{Tail: 1}, func(lines []*swarmv1.LogLine) error {
				if own++; len(lines) != 1 || lines[0].GetText() != "of "+sn {
					t.Errorf("of %s: %v", sn, lines)
				}
				return nil
			})
			cancel()
			if err != nil && client.Reason(err) != "NODE_UNKNOWN" {
				t.Errorf("of %s: %v", sn, err)
			}
			if f, ferr := ofNode(sn, identity.RoleSN); client.Reason(ferr) != client.Reason(err) || err == nil && (f.CPUs == nil || *f.StreamsIn+*f.StreamsOut == 0) {
				t.Errorf("figures of %s: %+v, %v", sn, f, ferr)
			}
		}
		if own != 1 {
			t.Errorf("%d SNs hand out their own log to who asks one of them", own)
		}
	})
}
