package swci

import (
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger/audit"
)

// TestReusedIDsBeyondThoseNamed are counted, in words and as JSON.
func TestReusedIDsBeyondThoseNamed(t *testing.T) {
	r := &audit.Report{Reused: []audit.Reused{{Record: 9, Before: 5, Assignment: "7"}}, MoreReused: 3}
	var out strings.Builder
	if err := printVerified(&out, r, nil); err != nil {
		t.Fatal(err)
	}
	want := "record 9 assigns under ID 7, which was used in record 5: what hosts signed under it may be about either\nand 3 assignments more under an ID that was used before\n"
	if !strings.Contains(out.String(), want) {
		t.Errorf("got\n%s", &out)
	}
	if got := auditedToJSON(r, nil); len(got.Reused) != 1 || got.MoreReused != 3 {
		t.Errorf("got %+v", got)
	}
}

// TestRecordsDatedBackBeyondThoseNamed are counted, in words and as JSON.
func TestRecordsDatedBackBeyondThoseNamed(t *testing.T) {
	r := &audit.Report{Backwards: []audit.Backwards{{Record: 9, AtMS: 1000, LatestMS: 90_000}}, MoreBackwards: 3}
	var out strings.Builder
	if err := printVerified(&out, r, nil); err != nil {
		t.Fatal(err)
	}
	if want := "the clock of an SN was wrong, or the record\nand 3 records more dated before an earlier one\n"; !strings.Contains(out.String(), want) {
		t.Errorf("got\n%s", &out)
	}
	if got := auditedToJSON(r, nil); len(got.Backwards) != 1 || got.MoreBackwards != 3 {
		t.Errorf("got %+v", got)
	}
}
