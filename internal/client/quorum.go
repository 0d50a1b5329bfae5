package client

// NoQuorum returns what SNs said of their quorum when it was lost, or "" while there is one: since an SN has passed a heartbeat on.
func (c *Client) NoQuorum() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.quorumLost
}

// setLost notes what SNs say of their quorum, or that one has passed a heartbeat on, and tells when that changes.
func (c *Client) setLost(lost, remedy string) {
	c.mu.Lock()
	changed := (c.quorumLost == "") != (lost == "")
	if changed {
		c.quorumLost = lost
	}
	c.mu.Unlock()
	if changed && c.cfg.OnQuorum != nil {
		c.cfg.OnQuorum(lost, remedy)
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

// lostQuorum is what a call ends with that has asked all SNs, or nil if it is to go on.
func (c *Client) lostQuorum(v *verdict) error {
	if v.lost == nil || v.another {
		return nil
	}
	c.setLost(v.lost.Message, v.lost.Remedy)
	if c.cfg.GiveUp {
		return v.lost.Error
	}
	return nil
}
