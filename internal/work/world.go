package work

import (
	"context"
	"fmt"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
)

// epoch is one of an assignment.
type epoch struct {
	assignment string
	number     uint32
}

func (l Label) epoch() epoch { return epoch{l.Assignment, l.Epoch} }

// hasPart reports whether a member of an epoch is known.
func hasPart(h *Host, e epoch) bool {
	for l := range h.members {
		if l.epoch() == e {
			return true
		}
	}
	return false
}

// silent is the error of a world in which a host has not told an address that its member should have; nil: all have.
func silent(world []task.Site) error {
	for _, s := range world {
		if s.Own == "" {
			return fmt.Errorf("host %s has not told which address its member has in the job's network: bring its SWOP, and the SNs, to this version", s.Node)
		}
	}
	return nil
}

// locate has it asked where all members of a member's epoch are: once for all that are this host's. Before one with an address of its own starts it is
// asked again: all members are prepared by then, and their hosts have told theirs.
func locate(ctx context.Context, h *Host, m *member) {
	e := m.label.epoch()
	for l, other := range h.members {
		if l.epoch() == e && other.worker != nil && other.worker.locates {
			return
		}
	}
	what, told := "prepared", m.state == task.Prepared && m.says.address != ""
	if told {
		what = "started"
	}
	m.due.tried = time.Now()
	h.work(ctx, m, fetchLimit, func(ctx context.Context) func(time.Time) {
		world, err := h.cfg.World(ctx, e.assignment, e.number)
		if err == nil && told {
			err = silent(world)
		}
		return func(now time.Time) {
			if err == nil {
				h.worlds[e] = world
				m.due.done()
				return
			}
			h.inVain(m, what, &Passing{Words: "its host can't get to know where the other members are: " + Explained(err), Err: err, Refuses: !told}, now)
		}
	})
	m.worker.locates = true
}

// asTold adds the address of its own to a job that this host has told of its member.
func asTold(h *Host, kind Type, j *Job) (err error) {
	if kind.Address != nil {
		j.Told, err = kept(h, j.Label, "")
	}
	return err
}

// oneAddress is the address of its own of a member that was prepared, the only one that its host tells in its epoch: others may have been told of the first.
func oneAddress(ctx context.Context, h *Host, kind Type, l Label) (string, error) {
	address, err := kind.Address(ctx, l)
	if err != nil || address == "" {
		return "", err
	}
	first, err := kept(h, l, address)
	switch {
	case err != nil:
		return "", err
	case first == "":
		return "", fmt.Errorf("this host has not begun %s, or has ended it: assign the task again, under a new ID", l.Part())
	case first != address:
		return "", fmt.Errorf("this host holds %s for its member, and has told %s before it was restarted: run the job again", address, first)
	}
	return address, nil
}

// kept is what the guard keeps as the address of a member, if that is kept already, or is to be.
func kept(h *Host, l Label, address string) (string, error) {
	first, err := h.cfg.Guard.AddressOnce(l.Part(), address)
	if err != nil {
		return "", &Passing{Words: "its host can't keep which address it has told of its member: see its SWOP's log, and whether there is space on its disk", Err: err}
	}
	return first, nil
}
