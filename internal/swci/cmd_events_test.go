package swci_test

import (
	"encoding/json"
	"strings"
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// noticingAPI is a swarm whose SNs have noticed something.
type noticingAPI struct{ ledgerAPI }

// GetEvents returns four events, of which one is of a later version, and none to who knows them.
func (*noticingAPI) GetEvents(r *swarmv1.GetEventsRequest) *swarmv1.GetEventsResponse {
	out := &swarmv1.GetEventsResponse{Version: 7, Older: 3}
	if r.GetKnown() != 7 {
		out.Events = []*swarmv1.Event{
			{AtUnixMs: 1_900_000_000_000, Kind: "solar_flare", Text: "it is \x1b[2Jbright", By: "sn-2"},
			{AtUnixMs: 3000, Kind: "leader", Node: "sn-2", Count: 5, Run: 1, Text: "term 5, after sn-1", By: "sn-2"},
			{AtUnixMs: 2000, Kind: "attempt_failed", Contract: "study", Run: 2, Round: 7, Attempt: 1, Text: "sl-0 is lost", By: "sn-1"},
			{AtUnixMs: 1000, Kind: "silent", Node: "sl-0", Text: "role sl", By: "sn-1"},
		}
	}
	return out
}

// TestGetEvents as a table and as JSON, some of them, and kinds that nobody knows.
func TestGetEvents(t *testing.T) {
	out, beside, err := on(t, &noticingAPI{}, "", "get", "events", "--sn=h")
	want := `AT                   WHAT            NODE  CONTRACT  MORE                                 NOTICED BY
2030-03-17 17:46:40  solar flare     -     -         it is bright                         sn-2
1970-01-01 00:00:03  leads           sn-2  -         term 5, after sn-1                   sn-2
1970-01-01 00:00:02  attempt failed  -     study     attempt 1 of round 7: sl-0 is lost   sn-1
1970-01-01 00:00:01  fell silent     sl-0  -         role sl                              sn-1
`
	if err != nil || strings.Join(strings.Fields(out), " ") != strings.Join(strings.Fields(want), " ") || !strings.Contains(beside, "3 older events left out") {
		t.Errorf("%v, beside %q, got\n%s", err, beside, out)
	}
	for filter, want := range map[string]string{"--kind=leader": "leader", "--node=sl-0": "silent", "--contract=study": "attempt_failed", "--since=2030-01-01": "solar_flare", "--kind=waits": ""} {
		out, _, err := on(t, &noticingAPI{}, "", "get", "events", "--sn=h", filter, "-o", "json")
		var got struct {
			Older  int
			Events []struct {
				Kind, At, Node, Contract string
				Run, Round, Attempt      int
			}
		}
		if bad := json.Unmarshal([]byte(out), &got); err != nil || bad != nil || got.Older != 3 {
			t.Fatalf("%s: %v, %v, got %s", filter, err, bad, out)
		}
		var kinds []string
		for _, e := range got.Events {
			kinds = append(kinds, e.Kind)
			if e.Contract == "" && e.Run != 0 || e.Contract != "" && (e.Run != 2 || e.Round != 7 || e.Attempt != 1) {
				t.Errorf("%s: %+v", filter, e)
			}
		}
		if strings.Join(kinds, " ") != want {
			t.Errorf("%s: %v, want %s", filter, kinds, want)
		}
	}
	for _, bad := range []string{"--kind=earthquake", "--since=soon"} {
		if _, _, err := on(t, &noticingAPI{}, "", "get", "events", "--sn=h", bad); exit.Code(err) != exit.Usage {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, _, err := on(t, &noticingAPI{}, "", "get", "events", "--sn=h", "--kind=earthquake"); err == nil || !strings.Contains(exit.Hint(err), "attempt_failed") {
		t.Errorf("a kind that there is not: %v, %s", err, exit.Hint(err))
	}
}

// TestDashboardShowsWhatWasNoticed among what somebody did, by time, each with its source; and why it can't where an SN keeps no events.
func TestDashboardShowsWhatWasNoticed(t *testing.T) {
	c := audited(t)
	var doc struct {
		Value struct {
			Unreported    string
			ReportedOlder int `json:"reported_older"`
			Events        []struct {
				Source, SN, What, Kind, About, Text, Who string
				Record                                   int
			}
		}
	}
	ask := func(api fake) (said string) {
		base, browser := openDashboard(t, api)
		for range 2 { // the second time the version is known
			said = askDashboard(t, browser, "GET", base+"api/doc/events", "")
		}
		doc.Value.Events = nil
		if err := json.Unmarshal([]byte(said), &doc); err != nil {
			t.Fatal(err)
		}
		return said
	}
	said := ask(&noticingAPI{ledgerAPI{raw: c.lines}})
	var order []string
	for _, e := range doc.Value.Events {
		order = append(order, e.Source+" "+e.SN+" "+e.What+" "+e.Kind+" "+e.About)
		if (e.Source == "recorded") != (e.Record > 0) || strings.Contains(e.Text, "\x1b") {
			t.Errorf("%+v", e)
		}
	}
	want := []string{
		"reported sn-2 solar flare node ", "recorded  reset contract study", "recorded  banned node sl-0", "reported sn-2 leads node sn-2",
		"reported sn-1 attempt failed contract study", "reported sn-1 fell silent node sl-0",
	}
	if strings.Join(order, "\n") != strings.Join(want, "\n") || doc.Value.Unreported != "" || doc.Value.ReportedOlder != 3 {
		t.Errorf("events %s", said)
	}
	if said = ask(&ledgerAPI{raw: c.lines}); len(doc.Value.Events) != 2 || doc.Value.Unreported == "" || strings.Contains(doc.Value.Unreported, "\n") {
		t.Errorf("of an SN that notices nothing: %s", said)
	}
}
