package e2e_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/multiformats/go-multistream"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/p2p"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// one starts the authority and one SN.
func (w *swarm) one() *e2etest.Proc {
	w.T.Helper()
	w.authority()
	sn := w.SN(1)
	sn.Sees(apiMarker)
	return sn
}

// attach starts SL i without a program.
func (w *swarm) attach(i int, extra ...string) *e2etest.Proc {
	w.T.Helper()
	return e2etest.Start(w.T, fmt.Sprintf("sl-%d", i), w.Dir, nil, append([]string{
		"swarmd", "run-sl", "--name", fmt.Sprintf("sl-%d", i), "--host-ip", w.Addr(10 + i), "--sn-ip", w.Addr(1), "--attach",
		"--identity", "embedded=" + w.Path("ca"), "--state-dir", w.Path(fmt.Sprintf("sl%d", i)), "--bridge-dir", w.Bridge(i),
	}, extra...)...)
}

// source is an identity of an authority's folder.
func (w *swarm) source(ca string, role identity.Role) *identity.WorkloadSource {
	w.T.Helper()
	s, err := identity.OpenSource(w.T.Context(), identity.SourceConfig{
		Socket: w.Path(ca, string(role)+".sock"), Role: role, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { _ = s.Close() })
	return s
}

func (w *swarm) domains(s *identity.WorkloadSource) identity.Domains {
	w.T.Helper()
	d, err := identity.NewDomains(s.ID().SPIFFE().TrustDomain())
	if err != nil {
		w.T.Fatal(err)
	}
	return d
}

// client is an API client of this role at SN 1, on one connection of its own. before sees each request.
func (w *swarm) client(role identity.Role, before func(http.Header)) *client.Client {
	w.T.Helper()
	return w.clientAs(w.source("ca", role), before)
}

// clientAs is an API client with this identity at SN 1.
func (w *swarm) clientAs(source *identity.WorkloadSource, before func(http.Header)) *client.Client {
	w.T.Helper()
	cfg := identity.ClientTLS(source, w.domains(source), identity.RoleSN)
	cfg.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", w.Addr(1)+":30304", cfg)
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { _ = conn.Close() })
	tr := &http.Transport{ForceAttemptHTTP2: true, DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
	state := conn.ConnectionState()
	c, err := client.New(client.Config{
		SNs: []string{w.Addr(1) + ":30304"}, Source: source, Domains: w.domains(source), Log: slog.New(slog.DiscardHandler),
		Transport: meddler{tr, before},
		Exporter: func() ([]byte, error) {
			return state.ExportKeyingMaterial("EXPORTER-swarmd-registration-1", nil, 32)
		},
	})
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { _ = c.Close() })
	return c
}

// meddler changes headers on their way.
type meddler struct {
	http.RoundTripper
	before func(http.Header)
}

func (m meddler) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.before != nil {
		m.before(r.Header)
	}
	return m.RoundTripper.RoundTrip(r)
}

// refused wants a refusal with this reason and a remedy for whoever reads it.
func refused(t *testing.T, what string, err error, reason string) {
	t.Helper()
	if client.Reason(err) != reason || client.Remedy(err) == "" {
		t.Errorf("%s: got %v (reason %s, remedy %q), want reason %s with a remedy", what, err, client.Reason(err), client.Remedy(err), reason)
	}
}

// privateDir is a folder as a node key wants it.
func privateDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "key")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func registration(t *testing.T, name string, role identity.Role) client.Registration {
	t.Helper()
	key, err := identity.LoadOrCreateNodeKey(privateDir(t))
	if err != nil {
		t.Fatal(err)
	}
	return client.Registration{Key: key, Node: client.NodeInfo{Name: name, Role: role, Host: "127.0.0.1", FSPort: 1, Runtime: "process"}}
}

func TestStrangersGetNothing(t *testing.T) {
	t.Parallel()
	w := newSwarm(t)
	sn := w.one()
	w.attach(1).Sees("registered with the swarm")
	foreign := e2etest.Start(t, "foreign authority", w.Dir, nil, "swarmd", "run-authority", "--dir", w.Path("ca2"))
	foreign.Sees("embedded authority started")
	swarmID := pinned(t, sn)

	t.Run("no SVID at the API", func(t *testing.T) {
		outsider(t, w.Addr(1)+":30304", swarmID, nil)
	})
	for _, addr := range []string{w.Addr(1) + ":30303", w.Addr(1) + ":30305", w.Addr(11) + ":30305"} {
		t.Run("no SVID at "+addr[len(addr)-5:], func(t *testing.T) {
			outsider(t, addr, swarmID, func(c net.Conn) error {
				return multistream.SelectProtoOrFail(string(p2p.SecurityID), c)
			})
		})
	}
	t.Run("SVID of another authority at the API", func(t *testing.T) {
		s := w.source("ca2", identity.RoleSWCI)
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true, GetClientCertificate: identity.ClientTLS(s, w.domains(s), identity.RoleSN).GetClientCertificate,
		}}}
		res, err := c.Get("https://" + w.Addr(1) + ":30304/is_up")
		if err == nil {
			body, _ := io.ReadAll(res.Body)
			t.Errorf("got %s %q, want no answer", res.Status, body)
		}
	})
	t.Run("SVID of another authority at the file server", func(t *testing.T) {
		s := w.source("ca2", identity.RoleSN)
		key, err := identity.LoadOrCreateNodeKey(privateDir(t))
		if err != nil {
			t.Fatal(err)
		}
		h, err := p2p.NewHost(p2p.Config{
			Key: key, Source: s, Domains: w.domains(s), SwarmID: func() string { return "" }, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = h.Close() })
		if peer, err := h.Contact(t.Context(), w.Addr(1)+":30305", identity.RoleSN); err == nil {
			t.Errorf("contact found %v", peer)
		}
	})
	t.Run("node of another authority", func(t *testing.T) {
		p := e2etest.Start(t, "sl-foreign", w.Dir, nil, "swarmd", "run-sl", "--name", "sl-foreign", "--host-ip", w.Addr(20), "--sn-ip", w.Addr(1),
			"--attach", "--identity", "embedded="+w.Path("ca2"), "--state-dir", w.Path("foreign"), "--bridge-dir", w.Bridge(20))
		p.Sees("waiting for the swarm", "not signed by an authority that this node trusts")
		if strings.Contains(p.Output(), swarmID) {
			t.Error("it was told the swarm's ID")
		}
		p.Stop()
	})
}

// outsider speaks TLS without a certificate, checks nothing and reads whatever it is given.
func outsider(t *testing.T, addr, secret string, begin func(net.Conn) error) {
	t.Helper()
	raw, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	_ = raw.SetDeadline(time.Now().Add(20 * time.Second))
	if begin != nil {
		if err := begin(raw); err != nil {
			t.Fatal(err)
		}
	}
	var seen bytes.Buffer
	c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"/yamux/1.0.0", "h2", "http/1.1"}})
	_, _ = c.Write([]byte("GET /is_up HTTP/1.1\r\nHost: x\r\n\r\n"))
	_, err = io.Copy(&seen, c)
	if err == nil || seen.Len() > 0 || strings.Contains(seen.String(), secret) {
		t.Errorf("%s gave %q (%v), want a refused handshake", addr, seen.String(), err)
	}
}

func TestInsidersSpeakForThemselvesOnly(t *testing.T) {
	t.Parallel()
	w := newSwarm(t)
	w.one()
	sl := w.attach(1)
	sl.Sees("registered with the swarm")
	ctx := t.Context()

	t.Run("wrong role", func(t *testing.T) {
		_, err := client.Operator{Client: w.client(identity.RoleSL, nil)}.ResetContract(ctx, "c", true)
		refused(t, "sl resets a contract", err, "ROLE_DENIED")
		refused(t, "sl forgets a node", client.Operator{Client: w.client(identity.RoleSL, nil)}.ForgetNode(ctx, "sl-1"), "ROLE_DENIED")
		err = w.client(identity.RoleSWCI, nil).Register(ctx, registration(t, "sl-9", identity.RoleSL))
		refused(t, "swci registers a node", err, "ROLE_DENIED")
		err = w.client(identity.RoleSL, nil).Register(ctx, registration(t, "swop-1", identity.RoleSWOP))
		refused(t, "sl registers a swop", err, "ROLE_MISMATCH")
	})
	t.Run("another node's name", func(t *testing.T) {
		err := w.client(identity.RoleSL, nil).Register(ctx, registration(t, "sl-1", identity.RoleSL))
		refused(t, "second sl-1", err, "NAME_TAKEN")
		p := e2etest.Start(t, "second sl-1", w.Dir, nil, "swarmd", "run-sl", "--name", "sl-1", "--host-ip", w.Addr(30), "--sn-ip", w.Addr(1), "--attach",
			"--identity", "embedded="+w.Path("ca"), "--state-dir", w.Path("second"), "--bridge-dir", w.Bridge(30))
		p.Fails("the name sl-1 belongs to node key ", "--name", "swarmctl forget node sl-1")
	})
	t.Run("another node's voice", func(t *testing.T) {
		as := ""
		c := w.client(identity.RoleSL, func(h http.Header) {
			if as != "" {
				h.Set("Swarm-Node", as)
			}
		})
		if err := c.Register(ctx, registration(t, "sl-2", identity.RoleSL)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Report(ctx, &swarmv1.ReportRequest{}); err != nil {
			t.Fatalf("own report: %v", err)
		}
		as = "sl-1"
		_, err := c.Report(ctx, &swarmv1.ReportRequest{})
		refused(t, "report for sl-1 with the token of sl-2", err, "TOKEN_REFUSED")
	})
	t.Run("another swarm", func(t *testing.T) {
		source := w.source("ca", identity.RoleSWCI)
		stub := swarmv1connect.NewContractServiceClient(&http.Client{Transport: &http.Transport{
			ForceAttemptHTTP2: true, TLSClientConfig: identity.ClientTLS(source, w.domains(source), identity.RoleSN),
		}}, "https://"+w.Addr(1)+":30304")
		req := connect.NewRequest(&swarmv1.ListContractsRequest{})
		req.Header().Set("Swarm-Id", strings.Repeat("0", 32))
		if _, err := stub.ListContracts(ctx, req); connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("call with the ID of another swarm: %v", err)
		}
	})
	if strings.Contains(sl.Output(), " : ERROR : ") {
		t.Errorf("the real sl-1 was disturbed")
	}
	sl.Stop()
}

// A state directory belongs to one node of one swarm.
func TestStateDirOfAnother(t *testing.T) {
	t.Parallel()
	w := newSwarm(t)
	sn := w.one()
	sl := w.attach(1)
	sl.Sees("registered with the swarm")

	again := w.attach(1, "--sl-fs-port", "30306")
	again.Fails("in use by another process (pid ", "--state-dir")
	sl.Stop()
	e2etest.Start(t, "other name", w.Dir, nil, "swarmd", "run-sl", "--name", "sl-7", "--host-ip", w.Addr(11), "--sn-ip", w.Addr(1), "--attach",
		"--identity", "embedded="+w.Path("ca"), "--state-dir", w.Path("sl1"), "--bridge-dir", w.Bridge(1)).
		Fails("belongs to node sl-1", "--state-dir")
	e2etest.Start(t, "other role", w.Dir, nil, "swarmd", "run-sn", "--name", "sl-1", "--host-ip", w.Addr(2), "--sentinel-ip", w.Addr(1),
		"--identity", "embedded="+w.Path("ca"), "--state-dir", w.Path("sl1")).
		Fails("(role sl)", "--state-dir")
	w.attach(1, "--swarm-id", strings.Repeat("5", 32)).Fails("belongs to swarm", "--state-dir")

	// The same authority, but the Sentinel lost its state and founded another swarm.
	sn.Stop()
	other := w.SN(1, "--state-dir", filepath.Join(w.Dir, "fresh"))
	other.Sees(apiMarker)
	// It may come back: the SL waits for it, and says so.
	sl = w.attach(1)
	sl.Sees("waiting for the swarm", "no SN of swarm ", "belongs to swarm ")
	sl.Stop()
	w.SN(2, "--swarm-id", pinned(t, sl)).Fails(w.Addr(1)+":30305", "different swarms", "--state-dir")
	w.SN(1, "--state-dir", filepath.Join(w.Dir, "fresher"), "--found-at-once=false", "--swarm-id", pinned(t, sl), "--sn-p2p-port", "30406", "--sn-api-port", "30404", "--sn-fs-port", "30405").
		Fails("would found another", "--join", "leave --swarm-id out")
}

// pinned is the swarm ID that a process said it belongs to.
func pinned(t *testing.T, p *e2etest.Proc) string {
	t.Helper()
	_, rest, ok := strings.Cut(p.Output(), "swarm_id=")
	if !ok || len(rest) < 32 {
		t.Fatalf("%s names no swarm", p.Name)
	}
	return rest[:32]
}
