package client

import "sync"

// quorumVerdict is what SNs say of their quorum: "" while they have one.
type quorumVerdict struct {
	on func(lost, remedy string) // nil: nobody is told

	mu   sync.Mutex
	said string
}

func (q *quorumVerdict) get() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.said
}

// set notes what SNs say of their quorum, or that one has passed a heartbeat on, and tells when that changes.
func (q *quorumVerdict) set(lost, remedy string) {
	q.mu.Lock()
	changed := (q.said == "") != (lost == "")
	if changed {
		q.said = lost
	}
	q.mu.Unlock()
	if changed && q.on != nil {
		q.on(lost, remedy)
	}
}

// verdict is what the SNs that one call asks in turn say of the quorum.
type verdict struct {
	lost    *failure // by one of them
	another bool     // one of them neither says so nor is out of reach
}

// note takes what came of asking an SN, and returns what there is to say: that there is no quorum rather than that an SN which is
// one of those missing can't be reached.
func (v *verdict) note(f *failure) *failure {
	switch f.Reason {
	case ReasonNoQuorum:
		v.lost = f
	case ReasonUnreachable:
		if v.lost != nil {
			return v.lost
		}
	default:
		v.another = true
	}
	return f
}

// lost is what a call ends with that has asked all SNs, or nil if it is to go on.
func (q *quorumVerdict) lost(v *verdict, giveUp bool) error {
	if v.lost == nil || v.another {
		return nil
	}
	q.set(v.lost.Message, v.lost.Remedy)
	if giveUp {
		return v.lost.Error
	}
	return nil
}
