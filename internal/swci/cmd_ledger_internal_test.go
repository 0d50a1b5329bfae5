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
