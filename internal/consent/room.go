package consent

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// roomFor returns what is left of all entries once there is room for a new one, in the share of who asked, in that of its trust domain, and in
// all. It changes nothing.
func roomFor(e *Entry, all map[string]Entry, nowMS int64) (map[string]Entry, error) {
	left, domain := all, domainOf(e.By)
	for _, share := range []struct {
		whose string
		most  int
		in    func(other *Entry) bool
	}{
		{e.By, MaxOfOne, func(other *Entry) bool { return other.By == e.By }},
		{"operators of " + domain, MaxOfDomain, func(other *Entry) bool { return domainOf(other.By) == domain }},
		{"all operators", MaxEntries, func(*Entry) bool { return true }},
	} {
		var of []Entry
		for _, other := range left {
			if share.in(&other) {
				of = append(of, other)
			}
		}
		if len(of) < share.most {
			continue
		}
		over := len(of) - share.most
		gone := forgotten(of, over+1, over+share.most/4, nowMS)
		if len(of)-len(gone) >= share.most {
			return nil, &noRoom{len(of) - len(gone), share.whose}
		}
		left = maps.Clone(left)
		for _, id := range gone {
			delete(left, id)
		}
	}
	return left, nil
}

// noRoom says that a share is full.
type noRoom struct {
	begun int
	whose string
}

func (e *noRoom) Error() string {
	return fmt.Sprintf("this host has begun %d assignments of %s that have not expired, and can't forget them: wait until some have, and let new ones expire sooner", e.begun, e.whose)
}

// forgotten are the IDs of at most so many of some entries, to be forgotten: those that have expired long ago and of which nothing runs, and
// if these are not enough, those that were never begun and that no operator has approved or refused, which are proven anew when they are
// shown again. Those go first that were received first.
func forgotten(of []Entry, enough, most int, nowMS int64) (ids []string) {
	old := func(e *Entry) bool { return !e.running() && e.ExpiresMS+keepMS < nowMS }
	slices.SortFunc(of, func(a, b Entry) int { return cmp.Compare(a.ReceivedMS, b.ReceivedMS) })
	for _, may := range []func(e *Entry) bool{
		old,
		func(e *Entry) bool { return !old(e) && e.BeganMS == 0 && e.Approver == "" },
	} {
		for _, e := range of {
			if len(ids) < most && may(&e) {
				ids = append(ids, e.Assignment)
			}
		}
		if len(ids) >= enough {
			break
		}
	}
	return ids
}

// domainOf is the trust domain of a SPIFFE ID.
func domainOf(id string) string {
	domain, _, _ := strings.Cut(strings.TrimPrefix(id, "spiffe://"), "/")
	return domain
}
