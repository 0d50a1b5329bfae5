package swci_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci"
)

// TestCreateContractWarnsOfUnknownNodes holds that a required SL which never registered is named: it may be misspelt. An SN
// of that name is none.
func TestCreateContractWarnsOfUnknownNodes(t *testing.T) {
	state := t.TempDir()
	var out, errs bytes.Buffer
	env := swci.Env{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Getenv: func(k string) string {
			return map[string]string{"XDG_STATE_HOME": state, "SWARM_IDENTITY": "/run/agent.sock"}[k]
		},
		Now: time.Now, IsTerminal: func(io.Writer) bool { return false },
	}
	connect := func(context.Context, swci.Context) (client.Operator, func(), error) {
		return answering(t, &fakeAPI{}), func() {}, nil
	}
	args := []string{"create", "contract", "study", "--require", "sl-0", "--require", "sl-O", "--require", "sn-0", "--sn=10.0.0.1:30304"}
	if err := swci.Execute(t.Context(), args, &swci.Session{Env: env, Connect: connect}); err != nil {
		t.Fatal(err)
	}
	want := "swarmctl: no SL sl-O has registered yet: no round is planned before it takes part\n" +
		"swarmctl: no SL sn-0 has registered yet: no round is planned before it takes part\n"
	if errs.String() != want {
		t.Errorf("got %q, want %q", errs.String(), want)
	}
}
