package text_test

import (
	"testing"

	"github.com/swarmd/swarmd/internal/text"
)

func TestLists(t *testing.T) {
	for got, want := range map[string]string{
		text.Names(nil):                        "nobody",
		text.Names([]string{"sl-0"}):           "sl-0",
		text.Names([]string{"sl-0", "sl-1"}):   "sl-0, sl-1",
		text.MorePeers(1, ""):                  "1 more peer",
		text.MorePeers(1, "expected "):         "1 more expected peer",
		text.MorePeers(2, "") + " are missing": "2 more peers are missing",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
