package report

// bar is one line of the picture that compares the swarm with each peer alone.
type bar struct {
	Label string
	Class string // "swarm" or "local"
	Value *float64
	Width float64 // in percent
}

// bars compares the final values of the metric. Where all peers measured the same in the swarm, as on a common test set, that is one bar, first. It is
// empty where bars would say nothing: without a value, and with values below zero.
func (p *Page) bars() []bar {
	var swarm, local []bar
	for _, peer := range p.Summary.Peers {
		if v := peer.SwarmAccuracy; v != nil && !peer.Failed {
			swarm = append(swarm, bar{Label: peer.Name + " in the swarm", Class: "swarm", Value: v})
		}
		if v := peer.LocalAccuracy; v != nil {
			local = append(local, bar{Label: peer.Name + " alone", Class: "local", Value: v})
		}
	}
	all := append(oneForAll(swarm), local...)
	most := 1.0
	for _, b := range all {
		if *b.Value < 0 {
			return nil
		}
		most = max(most, *b.Value)
	}
	for i := range all {
		all[i].Width = round1(*all[i].Value / most * 100)
	}
	return all
}

func oneForAll(swarm []bar) []bar {
	for _, b := range swarm {
		if !nearly(*b.Value, *swarm[0].Value) {
			return swarm
		}
	}
	if len(swarm) > 1 {
		swarm[0].Label = "the swarm's model"
		return swarm[:1]
	}
	return swarm
}

// timeBar shows for how much of its training a peer stood still for merges.
type timeBar struct {
	Name          string
	Train, Merge  float64 // in percent of the longest training
	TrainS, Still float64 // seconds
	Percent       float64 // of its own
	Sent          string
}

func (s *Summary) times() []timeBar {
	longest := 0.0
	for _, p := range s.Peers {
		if p.TrainSeconds != nil {
			longest = max(longest, *p.TrainSeconds)
		}
	}
	var out []timeBar
	for _, p := range s.Peers {
		if p.TrainSeconds == nil || p.MergeSeconds == nil || *p.TrainSeconds == 0 {
			continue
		}
		all, still := *p.TrainSeconds, *p.MergeSeconds
		sent := ""
		if p.SentBytes != nil {
			sent = inBytes(*p.SentBytes)
		}
		out = append(out, timeBar{
			Sent: sent, Name: p.Name, Train: round1((all - still) / longest * 100), Merge: round1(still / longest * 100), TrainS: all - still, Still: still,
			Percent: still / all * 100,
		})
	}
	return out
}
