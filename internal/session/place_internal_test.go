package session

import "testing"

func TestPlace(t *testing.T) {
	fresh := place{run: 5, fresh: true}
	with := func(p place, change func(p *place)) place {
		change(&p)
		return p
	}
	begun := with(fresh, func(p *place) { p.fresh = false })
	held := with(begun, func(p *place) { p.held = true })
	moved := func(p place) place { return with(p, func(p *place) { p.moved = true }) }
	opening := func(p place) place { return with(p, func(p *place) { p.reopening = true }) }
	bound := func(p place) place { return with(p, func(p *place) { p.bound = true }) }
	ended := func(p place) place { return with(p, func(p *place) { p.ended = true }) }
	for _, tt := range []struct {
		name    string
		is      place
		run     uint64
		state   string
		want    next
		missing bool
	}{
		{"its run", fresh, 5, "open", stay, false},
		{"its run, closed", held, 5, "closed", stay, false},
		{"its run, ended there", held, 5, "ended", stay, false},
		{"lost by its run", fresh, 5, "", stay, true},
		{"lost by its run, with a model", held, 5, "", stay, true},
		{"lost after its end", ended(held), 5, "", stay, false},
		{"lost, of a previous run", bound(held), 5, "", stay, false},
		{"a lower run has it", fresh, 3, "open", follow, false},
		{"a lower run has it, and it has begun attempts", begun, 3, "closed", follow, false},
		{"a lower run has it, and it has a model", held, 3, "open", ignore, false},
		{"a lower run has it, after its end", ended(fresh), 3, "open", ignore, false},
		{"a lower run has it as ended", fresh, 3, "ended", ignore, false},
		{"a lower run lacks it", fresh, 3, "", ignore, true},
		{"a lower run lacks it, and it has begun attempts", begun, 3, "", ignore, true},
		{"a lower run lacks it, and it has a model", held, 3, "", ignore, false},
		{"a lower run lacks it, of a previous run", bound(fresh), 3, "", ignore, false},
		{"a higher run has it", fresh, 7, "open", reset, false},
		{"a higher run has it, where it is being opened", opening(fresh), 7, "open", follow, false},
		{"a higher run has it, where it is being opened, and it has begun attempts", opening(begun), 7, "open", reset, false},
		{"a higher run has it, and it has moved before", moved(begun), 7, "closed", follow, false},
		{"a higher run has it, and it has moved and has a model", moved(held), 7, "open", reset, false},
		{"a higher run has it as ended", moved(fresh), 7, "ended", reset, false},
		{"a higher run lacks it", fresh, 7, "", ignore, true},
		{"a higher run lacks it, and it has begun attempts", begun, 7, "", reset, false},
		{"a higher run lacks it, and it has moved before", moved(begun), 7, "", ignore, true},
		{"a higher run lacks it, and it has a model", held, 7, "", reset, false},
		{"a higher run lacks it, of a previous run", bound(fresh), 7, "", reset, false},
		{"a higher run, after its end", ended(fresh), 7, "open", reset, false},
	} {
		if got, missing := tt.is.after(tt.run, tt.state); got != tt.want || missing != tt.missing {
			t.Errorf("%s: %d, missing %t; want %d, %t", tt.name, got, missing, tt.want, tt.missing)
		}
	}
}
