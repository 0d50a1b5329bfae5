package task

import "slices"

// AskStop is what a host asks of a job of one of its members: its end.
const AskStop = "stop"

// ToStop reports whether a job that runs is to end, as one of its hosts has asked.
func ToStop(a *Assignment) bool {
	return a.Shares && a.Stops && a.Phase == Running && slices.ContainsFunc(a.Members, func(m Member) bool { return m.Asks == AskStop })
}

// mayAsk reports whether a host may say that a member is in a state and what it asks: nothing, or of a job that can be stopped so its end, while the
// member runs.
func mayAsk(a *Assignment, m *Member, r Report) bool {
	return r.Asks == "" || r.Asks == AskStop && a.Shares && a.Stops && (r.State == Started || r.State == Ready) && a.Started(m.Group)
}

// asksNow reports whether a host asks something of a job for the first time, in the state in which the member is.
func asksNow(a *Assignment, m *Member, r Report) bool {
	return r.Asks != "" && m.Asks == "" && r.State == m.State && !m.Cleaned && mayAsk(a, m, r) && visible(r.Signature, maxSignature)
}
