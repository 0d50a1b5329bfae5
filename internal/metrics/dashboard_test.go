package metrics_test

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// source is where something of Grafana's gets its data.
type source struct{ Type, UID string }

// board is Grafana's model of a dashboard, as far as it is used here.
type board struct {
	UID, Title    string
	SchemaVersion int
	Templating    struct {
		List []struct {
			Name, Type string
			Datasource source
			Query      json.RawMessage // a word, or an object with a query
		}
	}
	Panels []struct {
		ID          int
		Type, Title string
		Datasource  source
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct {
			RefID      string
			Expr       string
			Datasource source
		}
	}
}

// TestDashboard: panels are of kinds that Grafana has, each in a place of its own in 24 columns; their data come from the Prometheus that is chosen, and
// every variable is declared.
func TestDashboard(t *testing.T) {
	var b board
	if err := json.Unmarshal([]byte(text(t, filepath.Join(deploy, "grafana-dashboard.json"))), &b); err != nil {
		t.Fatal(err)
	}
	if b.UID == "" || b.Title == "" || b.SchemaVersion < 36 {
		t.Errorf("dashboard %q %q of version %d", b.UID, b.Title, b.SchemaVersion)
	}
	chosen := source{"prometheus", "${datasource}"}
	declared := map[string]bool{"__rate_interval": true}
	for _, v := range b.Templating.List {
		declared[v.Name] = true
		if v.Type == "query" && v.Datasource != chosen || v.Type != "query" && v.Type != "datasource" {
			t.Errorf("variable %s is a %s of %+v", v.Name, v.Type, v.Datasource)
		}
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range b.Panels {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("%s: its number %d is another one's", p.Title, p.ID)
		}
		ids[p.ID] = true
		if g := p.GridPos; g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
			t.Errorf("%s is beside the grid: %+v", p.Title, g)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("%s lies on %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if !slices.Contains([]string{"stat", "timeseries"}, p.Type) || p.Datasource != chosen {
			t.Errorf("%s is a %s of %+v", p.Title, p.Type, p.Datasource)
		}
		refs := map[string]bool{}
		for _, x := range p.Targets {
			if refs[x.RefID] || x.RefID == "" || x.Datasource != chosen {
				t.Errorf("%s: query %q of %+v", p.Title, x.RefID, x.Datasource)
			}
			refs[x.RefID] = true
			for _, v := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(x.Expr, -1) {
				if !declared[v[1]] {
					t.Errorf("%s: there is no variable %s", p.Title, v[1])
				}
			}
		}
	}
}
