package swci_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// rightsAPI is a swarm whose rights can be set.
type rightsAPI struct {
	fakeAPI
	rights *swarmv1.Rights
	asked  *swarmv1.ExplainRightRequest
	answer *swarmv1.ExplainRightResponse
}

// fakeRights are of a fake swarm that has rights.
type fakeRights interface{ own() *rightsAPI }

func (a *rightsAPI) own() *rightsAPI { return a }

func (h handler) GetRights(context.Context, *connect.Request[swarmv1.GetRightsRequest]) (*connect.Response[swarmv1.GetRightsResponse], error) {
	return answer(&swarmv1.GetRightsResponse{Rights: h.swarm.(fakeRights).own().rights}, nil)
}

func (h handler) SetRights(_ context.Context, r *connect.Request[swarmv1.SetRightsRequest]) (*connect.Response[swarmv1.SetRightsResponse], error) {
	a := h.swarm.(fakeRights).own()
	a.rights = &swarmv1.Rights{Sentences: r.Msg.GetSentences(), By: "spiffe://a.example/swarm/swci", SetUnixMs: 11_000}
	return answer(&swarmv1.SetRightsResponse{Rights: a.rights}, ordered(r.Msg.GetOrder(), nil))
}

func (h handler) ExplainRight(_ context.Context, r *connect.Request[swarmv1.ExplainRightRequest]) (*connect.Response[swarmv1.ExplainRightResponse], error) {
	a := h.swarm.(fakeRights).own()
	a.asked = r.Msg
	return answer(a.answer, nil)
}

// onRights runs a command against a swarm with rights.
func onRights(t *testing.T, swarm *rightsAPI, args ...string) (string, error) {
	t.Helper()
	state := t.TempDir()
	var out bytes.Buffer
	env := swci.Env{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: io.Discard, Now: func() time.Time { return time.UnixMilli(11_000) },
		Getenv: func(k string) string {
			return map[string]string{"XDG_STATE_HOME": state, "SWARM_IDENTITY": "/run/agent.sock"}[k]
		},
		IsTerminal: func(io.Writer) bool { return false },
	}
	connect := func(context.Context, swci.Context) (client.Operator, func(), error) {
		return answering(t, swarm), func() {}, nil
	}
	err := swci.Execute(t.Context(), append([]string{"--sn=10.0.0.1:30304"}, args...), &swci.Session{Env: env, Connect: connect})
	return out.String(), err
}

// TestRightsAreShownAsTheyAreSet: what get rights prints set rights takes.
func TestRightsAreShownAsTheyAreSet(t *testing.T) {
	swarm, file := &rightsAPI{}, filepath.Join(t.TempDir(), "rights.txt")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := onRights(t, swarm, "get", "rights"); err != nil || out != "# nobody has set rights: roles alone decide\n" {
		t.Errorf("at first: %q, %v", out, err)
	}
	write("# ours\nallow spiffe://a.example/** to manage all-resources\nAllow spiffe://b.example/** to use contracts\n  where contract.name=study\n")
	want := []string{"Allow spiffe://a.example/** to manage all-resources", "Allow spiffe://b.example/** to use contracts where contract.name='study'"}
	if out, err := onRights(t, swarm, "set", "rights", file); err != nil || out != "set: operators and auditors may do what these sentences allow: 2\n" || !cmp.Equal(swarm.rights.GetSentences(), want) {
		t.Errorf("set: %q, %v: %q", out, err, swarm.rights.GetSentences())
	}
	out, err := onRights(t, swarm, "get", "rights")
	if err != nil || out != "# set by spiffe://a.example/swarm/swci\n"+strings.Join(want, "\n")+"\n" {
		t.Errorf("shown: %q, %v", out, err)
	}
	write(out)
	out, err = onRights(t, swarm, "set", "rights", file, "-o", "json")
	var got struct {
		Sentences []string
		By, Set   string
	}
	if json.Unmarshal([]byte(out), &got) != nil || err != nil || !cmp.Equal(got.Sentences, want) || got.Set != "1970-01-01T00:00:11.000Z" {
		t.Errorf("again: %s, %v", out, err)
	}
	write("Allow spiffe://a.example/** to manage all-resources\n\nAllow group x to use contracts\n")
	if _, err := onRights(t, swarm, "set", "rights", file); exit.Code(err) != exit.Usage || !strings.HasPrefix(err.Error(), file+`:3: "group" is no subject`) {
		t.Errorf("bad: exit code %d, %v", exit.Code(err), err)
	}
}

func TestExplainRight(t *testing.T) {
	swarm := &rightsAPI{answer: &swarmv1.ExplainRightResponse{Allowed: true, Number: 2, Sentence: "Allow x\x1b"}}
	for _, args := range [][]string{{"use", "contracts", "study", "as", "spiffe://a.example/swarm/swci/ann"}, {"USE", "Contracts", "as", "spiffe://a.example/swarm/swci/ann"}, {"use", "contracts"}} {
		out, err := onRights(t, swarm, append([]string{"explain", "right"}, args...)...)
		if err != nil || out != "allowed, by sentence 2: Allow x\n" {
			t.Errorf("%q: %q, %v", args, out, err)
		}
		named := len(args) > 4
		if q := swarm.asked; q.GetVerb() != "use" || q.GetResource() != "contracts" || (q.GetName() == "study") != named || (q.GetSpiffeId() == "") != (len(args) == 2) {
			t.Errorf("%q asked: %v", args, q)
		}
	}
	swarm.answer = &swarmv1.ExplainRightResponse{Number: 1, Sentence: "Allow y", Reason: "it is for others"}
	out, err := onRights(t, swarm, "explain", "right", "use", "contracts")
	if exit.Code(err) != exit.Denied || err.Error() != "not allowed, as it is for others; nearest is sentence 1: Allow y" || out != "" {
		t.Errorf("exit code %d, %v, %q", exit.Code(err), err, out)
	}
	swarm.answer = &swarmv1.ExplainRightResponse{Reason: "role audit may not use tasks"}
	if out, err := onRights(t, swarm, "explain", "right", "use", "tasks", "-o", "json"); exit.Code(err) != exit.Denied || !strings.Contains(out, `"allowed": false`) {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := onRights(t, swarm, "explain", "right", "use", "contracts", "study", "as"); exit.Code(err) != exit.Usage {
		t.Errorf("as without an ID: %v", err)
	}
}
