package swci_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestDashboardShowsFigures: a page has what `get node -o json` prints. That a host refuses them is said in their place, and not as something that
// this identity may not see of the swarm.
func TestDashboardShowsFigures(t *testing.T) {
	swarm := func() fake { return &figuresAPI{logsAPI: logsAPI{figures: allFigures}} }
	printed, _, err := on(t, swarm(), "", "--sn=10.0.0.1", "-o", "json", "get", "node", "h-0")
	if err != nil {
		t.Fatal(err)
	}
	base, c := openDashboard(t, swarm())
	var doc struct{ Value json.RawMessage }
	var short bytes.Buffer
	if err := json.Compact(&short, []byte(printed)); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(askDashboard(t, c, http.MethodGet, base+"api/doc/node/h-0", "")), &doc); err != nil || string(doc.Value) != short.String() || !strings.Contains(printed, `"cpus": 8`) {
		t.Errorf("%v: the page has %s, the command %s", err, doc.Value, printed)
	}
	if got := askDashboard(t, c, http.MethodGet, base+"api/doc/node/h-2", ""); !strings.Contains(got, `"error":"get node h-2: h-2 hands out no figures, which go where its log goes`) {
		t.Errorf("of a host that refuses: %s", got)
	}
	if got := askDashboard(t, c, http.MethodGet, base+"api/doc/swarm", ""); !strings.Contains(got, `"rights":[]`) {
		t.Errorf("the swarm: %s", got)
	}
}
