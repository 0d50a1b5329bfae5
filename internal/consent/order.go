package consent

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/consensus/task/onwire"
	"github.com/swarmd/swarmd/identity"
)

// skew is by how much the clocks of operator and host may differ where that does no harm.
const skew = 10 * time.Minute

// Verifier proves by this host's own means who asked for what.
type Verifier struct {
	Source  identity.Source  // has the trust bundles
	Domains identity.Domains // from which operators are taken
	Node    string           // this host's name in the swarm
	// Taskrunner is whose tasks the host takes: those of others only if the operator has named the host.
	Taskrunner string
	// Peers is for how many the host counts in a task that starts SLs, as it offers; 0: it is not known.
	Peers uint32
}

// Verify returns who asked for an assignment. Its order must be signed for this swarm by an operator's SVID that this host's bundle accepts
// now, or if it is beside an SL by that one's, and must say all that the SN shows of the assignment. An error says in words what is wrong.
func (v *Verifier) Verify(h *task.Hosted, swarmID string, now time.Time) (identity.ID, error) {
	if err := formed(h); err != nil {
		return identity.ID{}, err
	}
	role := identity.RoleSWCI
	if h.Beside != "" {
		role = identity.RoleSL
	}
	by, err := v.prove(h.Order, swarmID, role)
	if err != nil {
		return identity.ID{}, err
	}
	asked, err := v.held(h)
	if err != nil {
		return identity.ID{}, err
	}
	if h.Beside != "" && !by.MaySpeakFor(h.Beside) {
		return identity.ID{}, fmt.Errorf("it is a job beside SL %.80q, and %s has signed it", h.Beside, by)
	}
	return by, timely(asked.ExpiresMS, now)
}

// formed holds the order of an assignment to its bounds.
func formed(h *task.Hosted) error {
	if h.Order == nil {
		return errors.New("the SN shows no operator's order for it")
	}
	return wellFormed(h.Order, "AssignTask")
}

// held returns what the order of an assignment says, to which it holds what the SN shows. Who signed it is not its matter.
func (v *Verifier) held(h *task.Hosted) (task.Request, error) {
	m := &swarmv1.AssignTaskRequest{}
	if err := readSigned(h.Order, m); err != nil {
		return task.Request{}, err
	}
	asked := onwire.Asked(m)
	return asked, v.hold(&asked, h)
}

// wellFormed holds an order to its bounds and to the one form in which requests are signed.
func wellFormed(o *ledger.Order, method string) error {
	if o.Method != method {
		return fmt.Errorf("its order is for %.40q, not for %s", o.Method, method)
	}
	if err := state.CheckOrder(o); err != nil {
		return err
	}
	if again, err := json.Marshal(o.Request); err != nil || !bytes.Equal(again, o.Request) {
		return errors.New("its order has blanks, or characters that are to be escaped")
	}
	return nil
}

// readSigned reads the request that was signed. A field that this program does not know is an error: it may be a condition.
func readSigned(o *ledger.Order, request proto.Message) error {
	if err := protojson.Unmarshal(o.Request, request); err != nil {
		return fmt.Errorf("its order can't be read: %w", err)
	}
	return nil
}

// prove returns who signed an order, which must be of a role.
func (v *Verifier) prove(o *ledger.Order, swarmID string, role identity.Role) (identity.ID, error) {
	by, err := identity.ProveOrder(v.Source, signedOf(o, swarmID), o.Chain, o.Signature, role)
	if err != nil {
		return identity.ID{}, fmt.Errorf("its order proves nothing: %w", err)
	}
	return v.Domains.Check(by.SPIFFE(), role)
}

func signedOf(o *ledger.Order, swarmID string) identity.Order {
	return identity.Order{
		SwarmID: swarmID, Method: o.Method, Request: o.Request, Nonce: o.Nonce, Ledger: o.Witnessed.Hash, Length: o.Witnessed.Length, AskedMS: o.AskedMS,
	}
}

// sumOf identifies an order by all that is signed of it.
func sumOf(o *ledger.Order, swarmID string) string {
	sum := sha256.Sum256(identity.OrderMessage(signedOf(o, swarmID)))
	return hex.EncodeToString(sum[:])
}

// hold holds what the SN shows of an assignment to what the operator signed.
func (v *Verifier) hold(asked *task.Request, h *task.Hosted) error {
	differs := func(what string, signed, shown any) error {
		return fmt.Errorf("the operator signed %s %.80q, the SN shows %.80q", what, fmt.Sprint(signed), fmt.Sprint(shown))
	}
	switch {
	case asked.ID != h.ID:
		return differs("assignment", asked.ID, h.ID)
	case asked.Task != h.Task:
		return differs("task", asked.Task, h.Task)
	case asked.Digest == "":
		return errors.New("the operator signed no digest of the task: an SN could put another task in its place; assign it by its digest")
	case asked.Digest != h.Digest:
		return differs("task digest", asked.Digest, h.Digest)
	case asked.Taskrunner != h.Taskrunner || asked.Joins != h.Joins:
		return differs("taskrunner and assignment to join", asked.Taskrunner+" "+asked.Joins, h.Taskrunner+" "+h.Joins)
	case !slices.Equal(asked.Hosts, h.Hosts):
		return differs("hosts", asked.Hosts, h.Hosts)
	case len(asked.Hosts) == 0 && asked.Taskrunner != v.Taskrunner:
		return fmt.Errorf("the operator signed for hosts of taskrunner %.80q, and %s takes tasks of %.80q", asked.Taskrunner, v.Node, v.Taskrunner)
	case len(asked.Hosts) > 0 && !slices.Contains(asked.Hosts, v.Node):
		return fmt.Errorf("the operator signed for other hosts than %s: %.160q", v.Node, asked.Hosts)
	case !task.SameGroups(asked.Groups, h.Groups) || asked.InOrder != h.InOrder:
		return differs("groups", asked.Groups, h.Groups)
	case asked.Retries != h.Retries || asked.TimeoutMS != h.TimeoutMS:
		return differs("retries and time-out", []any{asked.Retries, asked.TimeoutMS}, []any{h.Retries, h.TimeoutMS})
	case asked.JobTerms != h.JobTerms:
		return differs("terms of the job", asked.JobTerms, h.JobTerms)
	case asked.ExpiresMS != h.ExpiresMS:
		return differs("expiry", asked.ExpiresMS, h.ExpiresMS)
	case h.Epoch == 0 || h.Epoch > asked.Retries+1:
		return fmt.Errorf("the operator signed for %d retries, and this is placement %d", asked.Retries, h.Epoch)
	}
	return holdMembers(asked, h.Members)
}

// holdMembers holds the parts that an SN has this host carry out to the groups that were asked for.
func holdMembers(asked *task.Request, members []task.HostedMember) error {
	for _, m := range members {
		if !slices.ContainsFunc(asked.Groups, func(g task.Group) bool { return g.Name == m.Group }) {
			return fmt.Errorf("the operator signed for no group %.80q", m.Group)
		}
	}
	return nil
}

// holdPeers holds the number of peers for which an SN counts this host to what it offers, in a job to one for each member: the host signs it for
// the ledger.
func (v *Verifier) holdPeers(h *task.Hosted, t *task.Task) error {
	offers := task.Offer{Peers: v.Peers}.Counts(t.Type)
	for _, m := range h.Members {
		if (v.Peers > 0 || t.Type == task.RunJob) && m.Peers != offers {
			return fmt.Errorf("the SN counts this host for %d peers, and it offers %d: if its profile was changed, assign the task again", m.Peers, offers)
		}
	}
	return nil
}

// timely holds an order to its expiry.
func timely(expiresMS int64, now time.Time) error {
	if expiresMS <= 0 {
		return errors.New("its order has no expiry: assign it with one, at most 7 days away")
	}
	ends := time.UnixMilli(min(expiresMS, math.MaxInt64/int64(time.Millisecond)))
	switch {
	case !now.Before(ends):
		return fmt.Errorf("its order has expired at %s: assign it again", ends.UTC().Format(time.RFC3339))
	case ends.Sub(now) > task.MaxValidMS*time.Millisecond+skew:
		return fmt.Errorf("its order expires at %s: assign it with an expiry of at most 7 days", ends.UTC().Format(time.RFC3339))
	}
	return nil
}
