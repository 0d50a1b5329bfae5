package consent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// makeRoomLocked makes room for a new entry, in the share of who asked, in that of its trust domain, and in all.
func (j *Journal) makeRoomLocked(e *Entry, nowMS int64) error {
	domain := domainOf(e.By)
	for _, share := range []struct {
		whose string
		most  int
		in    func(other *Entry) bool
	}{
		{e.By, MaxOfOne, func(other *Entry) bool { return other.By == e.By }},
		{"operators of " + domain, MaxOfDomain, func(other *Entry) bool { return domainOf(other.By) == domain }},
		{"all operators", MaxEntries, func(*Entry) bool { return true }},
	} {
		var all []Entry
		for _, other := range j.all {
			if share.in(&other) {
				all = append(all, other)
			}
		}
		if len(all) < share.most {
			continue
		}
		if !j.forgetLocked(all, share.most/4, nowMS) {
			return fmt.Errorf("this host has begun %d assignments of %s that have not expired, and can't forget them: wait until some have, and let new ones expire sooner", len(all), share.whose)
		}
		if err := j.rewriteLocked(); err != nil {
			return err
		}
	}
	return nil
}

// forgetLocked forgets at most n of some entries, and reports whether it did any: first those that have expired long ago and of which nothing
// runs, else those that were never begun and that no operator has approved or refused, which are proven anew when they are shown again. Those
// go first that were received first.
func (j *Journal) forgetLocked(of []Entry, n int, nowMS int64) bool {
	slices.SortFunc(of, func(a, b Entry) int { return cmp.Compare(a.ReceivedMS, b.ReceivedMS) })
	for _, may := range []func(e *Entry) bool{
		func(e *Entry) bool { return !e.running() && e.ExpiresMS+keepMS < nowMS },
		func(e *Entry) bool { return e.BeganMS == 0 && e.Approver == "" },
	} {
		gone := 0
		for _, e := range of {
			if gone < n && may(&e) {
				delete(j.all, e.Assignment)
				gone++
			}
		}
		if gone > 0 {
			return true
		}
	}
	return false
}

// domainOf is the trust domain of a SPIFFE ID.
func domainOf(id string) string {
	domain, _, _ := strings.Cut(strings.TrimPrefix(id, "spiffe://"), "/")
	return domain
}
