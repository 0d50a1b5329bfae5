package e2e_test

import (
	"os"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "reverse-proxy" {
		os.Exit(reverseProxy(os.Args[2:]))
	}
	os.Exit(e2etest.Main(m))
}

// swarm is a swarm on the embedded authority.
type swarm struct{ *e2etest.Swarm }

func newSwarm(t *testing.T) *swarm {
	t.Helper()
	var w *swarm
	w = &swarm{e2etest.NewSwarm(t, func(string, int) []string { return []string{"--identity", "embedded=" + w.Path("ca")} })}
	return w
}

func (w *swarm) authority() *e2etest.Proc {
	w.T.Helper()
	return e2etest.Start(w.T, "authority", w.Dir, nil, "swarmd", "run-authority", "--dir", w.Path("ca"))
}

// up starts the authority and three SNs and waits until they serve.
func (w *swarm) up() (authority *e2etest.Proc, sns []*e2etest.Proc) {
	w.T.Helper()
	authority = w.authority()
	for i := 1; i <= 3; i++ {
		sns = append(sns, w.SN(i))
	}
	for _, p := range sns {
		p.Sees(apiMarker)
	}
	return authority, sns
}
