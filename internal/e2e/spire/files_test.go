package spire_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity/spire/spiretest"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// files is a swarm on certificates that swarmctl made.
type files struct {
	*swarm
}

func newFiles(t *testing.T, kind string) *files {
	t.Helper()
	e2etest.NeedPython(t)
	w := &files{swarm: &swarm{extra: map[string][]string{}}}
	w.Swarm = e2etest.NewSwarm(t, func(role string, i int) []string { return w.options(node(role, i), kind) })
	return w
}

// options are those with which a node or swarmctl uses the certificate of that name.
func (w *files) options(name, kind string) []string {
	pair := []string{"--cert", w.Path(name + "-cert.pem"), "--key", w.Path(name + "-key.pem")}
	if kind == "" {
		return append(pair, "--capath", w.Path("capath"))
	}
	return append(pair, "--cacert", w.Path("ca", "ca.pem"), "--cert-roles", kind)
}

// swarmctl runs a command that must succeed.
func (w *files) swarmctl(args ...string) string {
	w.T.Helper()
	return ctl(w.T, w.Dir, args...)
}

// A swarm without SPIRE: certificates with SPIFFE IDs from files, made anew while it trains.
func TestFiles(t *testing.T) {
	t.Parallel()
	w := newFiles(t, "spiffe")
	w.swarmctl("cert", "init", "ca")
	issue := func(name string) {
		w.swarmctl("cert", "issue", name[:2]+"/"+name, "--dir", "ca")
		for _, part := range []string{"-cert.pem", "-key.pem"} {
			if err := os.Rename(w.Path(name[:2]+"-"+name+part), w.Path(name+part)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{"sn-1", "sl-1", "sl-2"} {
		issue(name)
	}
	w.swarmctl("cert", "issue", "swci", "--dir", "ca")
	w.sns(1)
	sls := w.sls(2, "BATCHES=60", "BATCH_SECONDS=0.1")
	sls[0].Sees("round=3 ")
	before := shown(w.Addr(1)+":30304", nil)
	issue("sn-1")
	issue("sl-1")
	w.Until("new certificate of sn-1", func() bool {
		now := shown(w.Addr(1)+":30304", nil)
		return now != nil && !now.Equal(before)
	})
	finish(t, sls...)
	unbroken(t, sls[1])
	w.Agree(1, 2)
	out := w.swarmctl(append([]string{"list", "nodes", "--sn", w.Addr(1) + ":30304"}, w.options("swci", "spiffe")...)...)
	if !strings.Contains(out, "sl-2") {
		t.Errorf("list nodes says %q, want sl-2 in it", out)
	}
}

// As in the original: certificates without SPIFFE ID, the role in the CN, trust in whatever the CA signed.
func TestFilesWithRolesInCN(t *testing.T) {
	t.Parallel()
	w := newFiles(t, "cn")
	w.swarmctl("cert", "init", "ca", "--cn-roles")
	for name, cn := range map[string]string{"sn-1": "SN-1", "sl-1": "SL-1", "sl-2": "SL-2"} {
		w.swarmctl("cert", "issue", "--cn", cn, "--dir", "ca")
		for _, part := range []string{"-cert.pem", "-key.pem"} {
			if err := os.Rename(w.Path(strings.ToLower(cn)+part), w.Path(name+part)); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.sns(1)
	finish(t, w.sls(2)...)
	w.Agree(1, 2)
	// An SL's certificate makes no SN.
	args := append([]string{"swarmd", "run-sn", "--name", "sn-2", "--host-ip", w.Addr(2), "--sentinel-ip", w.Addr(1), "--state-dir", w.Path("sn2")}, w.options("sl-1", "cn")...)
	e2etest.Start(t, "sn-2", w.Dir, nil, args...).Fails("the certificate is for the role sl, this node is of the role sn")
}

// Two hosts with certificates as the original's gen-cert makes them, each of a CA of its own, and no option that says so.
func TestFilesOfTheOriginal(t *testing.T) {
	t.Parallel()
	w := newFiles(t, "")
	if err := os.Mkdir(w.Path("capath"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.genCert(1, map[string]string{"sn-1": "SN-1", "sl-1": "SL-1", "swci-1": "SWCI-1"})
	w.genCert(2, map[string]string{"sl-2": "SL-2"})
	sn := w.sns(1)[0]
	sn.Sees("certificates without SPIFFE ID are accepted")
	finish(t, w.sls(2)...)
	w.Agree(1, 2)
	operator := append([]string{"--sn", w.Addr(1) + ":30304"}, w.options("swci-1", "")...)
	w.swarmctl(append([]string{"get", "ledger", "--out", "ledger.jsonl"}, operator...)...)
	w.swarmctl(append([]string{"get", "bundle", "--out", "bundle.pem"}, operator...)...)
	out := w.swarmctl("verify", "ledger", "ledger.jsonl", "--bundle", "bundle.pem")
	if !strings.Contains(out, "verified: the chain of") {
		t.Errorf("verify ledger says %q", out)
	}
}

// genCert makes a CA and certificates with the commands of the original's script.
func (w *files) genCert(host int, cns map[string]string) {
	w.T.Helper()
	openssl := func(args ...string) {
		w.T.Helper()
		cmd := exec.Command("openssl", args...)
		cmd.Dir = w.Dir
		if out, err := cmd.CombinedOutput(); err != nil {
			w.T.Fatalf("openssl %v: %v\n%s", args, err, out)
		}
	}
	ca, caKey := fmt.Sprintf("capath/ca-%d-cert.pem", host), fmt.Sprintf("ca-%d-key.pem", host)
	openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/OU=Swarm-Learning/CN=CA", "-keyout", caKey, "-out", ca)
	for name, cn := range cns {
		ext := "subjectAltName=DNS:" + cn + "\nkeyUsage=digitalSignature,keyCertSign\n"
		if err := os.WriteFile(w.Path(name+".ext"), []byte(ext), 0o600); err != nil {
			w.T.Fatal(err)
		}
		openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/OU=Swarm-Learning/CN="+cn, "-keyout", name+"-key.pem", "-out", name+".csr")
		openssl("x509", "-req", "-days", "30", "-in", name+".csr", "-CA", ca, "-CAkey", caKey, "-CAcreateserial", "-extfile", name+".ext", "-out", name+"-cert.pem")
	}
}

// authority is a CA whose key the test holds.
type authority struct {
	t         *testing.T
	dir       string
	cert      *x509.Certificate
	key       crypto.Signer
	pem, priv string // files
}

func newAuthority(t *testing.T, dir string) *authority {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	a := &authority{t: t, dir: dir}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{Organization: []string{"test"}, CommonName: "the authority"},
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, URIs: []*url.URL{{Scheme: "spiffe", Host: "swarm.learning"}},
	}
	a.key = a.newKey()
	a.cert = a.sign(template, a.key.Public(), template)
	a.pem, a.priv = a.write("ca", a.cert, a.key)
	return a
}

func (a *authority) newKey() crypto.Signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *authority) sign(template *x509.Certificate, pub crypto.PublicKey, parent *x509.Certificate) *x509.Certificate {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, pub, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert
}

func (a *authority) write(name string, cert *x509.Certificate, key crypto.Signer) (certFile, keyFile string) {
	a.t.Helper()
	certFile, keyFile = filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+"-key.pem")
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err == nil {
		err = os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}), 0o600)
	}
	if err == nil {
		err = os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
	}
	if err != nil {
		a.t.Fatal(err)
	}
	return certFile, keyFile
}

// issue makes a node's certificate, valid for an hour from the given time on, and returns its files.
func (a *authority) issue(name string, from time.Time, ids ...string) (certFile, keyFile string) {
	a.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: from.Add(time.Hour),
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, id := range ids {
		u, err := url.Parse(id)
		if err != nil {
			a.t.Fatal(err)
		}
		template.URIs = append(template.URIs, u)
	}
	key := a.newKey()
	return a.write(name, a.sign(template, key.Public(), a.cert), key)
}

// Certificates that are wrong, against nodes on SPIRE whose server has its CA from the same authority: a node that is given
// one says what is wrong, and a node on SPIRE gives whoever shows one nothing.
func TestBadCertificates(t *testing.T) {
	t.Parallel()
	dir := spiretest.TempDir(t)
	ca := newAuthority(t, filepath.Join(dir, "ca"))
	stranger := newAuthority(t, filepath.Join(dir, "stranger"))
	w := newSwarm(t, spiretest.NewServer(t, spiretest.Options{Upstream: spiretest.DiskUpstream(ca.pem, ca.priv)}))
	w.own("sn-1")
	sn := w.sns(1)[0]
	now := time.Now()
	const id = "spiffe://swarm.learning/swarm/sl/"
	for i, c := range []struct {
		name string
		by   *authority
		from time.Time
		ids  []string
		ends bool     // the node does not even begin
		says []string // the node that has it
	}{
		{"good", ca, now.Add(-time.Minute), []string{id + "sl-1"}, false, []string{"registered with the swarm"}},
		{"not yet valid", ca, now.Add(2 * time.Hour), []string{id + "sl-2"}, true, []string{"not valid yet", "this machine's clock says", "differ by at least 1h59m"}},
		{"expired", ca, now.Add(-4 * time.Hour), []string{id + "sl-3"}, true, []string{"has expired", "this machine's clock says", "differ by at least 3h"}},
		{"two SPIFFE IDs", ca, now.Add(-time.Minute), []string{id + "sl-4", id + "sl-1"}, true, []string{"has two SPIFFE IDs"}},
		{"of another authority", stranger, now.Add(-time.Minute), []string{id + "sl-5"}, true, []string{"not signed by an authority that this node trusts", "one of the same name", "with another key"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := node("sl", i+1)
			cert, key := c.by.issue(name, c.from, c.ids...)
			p := e2etest.Start(t, name, w.Dir, nil, "swarmd", "run-sl", "--name", name, "--host-ip", w.Addr(11+i), "--sn-ip", w.Addr(1), "--attach",
				"--state-dir", w.Path(name), "--bridge-dir", w.Bridge(i+1), "--cert", cert, "--key", key, "--cacert", ca.pem)
			if c.ends {
				p.Fails(c.says...)
			} else {
				p.Sees(c.says...)
			}
			good := c.name == "good"
			for port, begin := range map[string]func(net.Conn) error{":30304": nil, ":30303": knock, ":30305": knock} {
				answer, err := shows(w.Addr(1)+port, begin, cert, key)
				if refused := err != nil; refused == good {
					t.Errorf("port %s answers %q, %v", port, answer, err)
				}
			}
			if !good {
				sn.Sees(c.says[0]) // the node that is asked knows why too
			}
		})
	}
	t.Run("with the wrong bundle", func(t *testing.T) {
		cert, key := stranger.issue("sl-6", now.Add(-time.Minute), id+"sl-6")
		p := e2etest.Start(t, "sl-6", w.Dir, nil, "swarmd", "run-sl", "--name", "sl-6", "--host-ip", w.Addr(16), "--sn-ip", w.Addr(1), "--attach",
			"--state-dir", w.Path("sl-6"), "--bridge-dir", w.Bridge(6), "--cert", cert, "--key", key, "--cacert", stranger.pem)
		p.Sees("waiting for the swarm", "not signed by an authority that this node trusts", "one of the same name")
		p.Stop()
	})
	if strings.Contains(sn.Output(), " : ERROR : ") {
		t.Errorf("sn-1 reports an error of its own")
	}
}

// shows speaks to a node with a certificate from files, whatever is in it, and returns the first that it says after the
// handshake: of TLS 1.3's refusal a client learns only then.
func shows(addr string, begin func(net.Conn) error, certFile, keyFile string) (string, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return "", err
	}
	raw, err := net.Dial("tcp", addr)
	if err != nil {
		return "", err
	}
	defer raw.Close()
	_ = raw.SetDeadline(time.Now().Add(10 * time.Second))
	protocol := "http/1.1"
	if begin != nil {
		if err := begin(raw); err != nil {
			return "", err
		}
		protocol = "/yamux/1.0.0"
	}
	c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}, NextProtos: []string{protocol}})
	if begin == nil {
		h := &http.Client{Transport: &http.Transport{DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return c, nil }}}
		res, err := h.Get("https://" + addr + "/is_up")
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err == nil && res.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s %s", res.Status, body)
		}
		return string(body), err
	}
	if err := c.Handshake(); err != nil {
		return "", err
	}
	// Who is refused hears an alert. Who is not is left waiting: the other side wants our hello.
	_ = raw.SetReadDeadline(time.Now().Add(time.Second))
	buf := make([]byte, 1)
	_, err = c.Read(buf)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "(waits)", nil
	}
	return string(buf), err
}
