package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// partly is a swarm of which one contract can't be shown.
type partly struct{ silent }

func (p *partly) Kind(string) Kind { return Kind{There: true} }

func (p *partly) Get(ctx context.Context, name string) (json.RawMessage, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if name == "contract/b" {
		return nil, errors.New("no contract b")
	}
	return json.RawMessage("1"), nil
}

// TestCounts: documents are counted by their kinds, those that did not come among them, and nothing for whoever has gone.
func TestCounts(t *testing.T) {
	s := New(Config{Documents: &partly{}, Now: time.Now})
	for _, name := range []string{"contract/a", "contract/b", "contract/a", "nodes", "history/a?points=9&after=3"} {
		s.hub.question(t.Context(), name)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	s.hub.question(gone, "tasks")
	s.slots <- struct{}{}
	want := Counts{Live: true, Streams: 1, Asked: map[string]uint64{"contract": 3, "nodes": 1, "history": 1}, Failed: map[string]uint64{"contract": 1}}
	if diff := cmp.Diff(want, s.Counts()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
