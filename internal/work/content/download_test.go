package content_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work/content"
)

// served has a server of files that says which ones were asked for.
func served(t *testing.T) (*httptest.Server, *[]string) {
	t.Helper()
	asked := &[]string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.URL.String())
		if a, ok := data[r.URL.Path]; ok {
			_, _ = w.Write(a) // the client says what is missing
			return
		}
		switch r.URL.Path {
		case "/here":
			http.Redirect(w, r, "/file", http.StatusFound)
		case "/there":
			http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		case "/ftp":
			http.Redirect(w, r, "ftp://x/y", http.StatusFound)
		case "/cut":
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("ten bytes."))
		case "/large":
			for range 20 {
				_, _ = w.Write(make([]byte, 1<<10))
				w.(http.Flusher).Flush() //nolint:forcetypeassert // it is one
			}
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s, asked
}

var data = map[string][]byte{"/file": []byte("text")}

func file(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestAFileIsFetched(t *testing.T) {
	s, _ := served(t)
	for _, path := range []string{"/file", "/here"} {
		f := file(t)
		n, sum, err := content.Fetch(t.Context(), nil, true, s.URL+path, f, 4)
		want := sha256.Sum256([]byte("text"))
		if raw, _ := os.ReadFile(f.Name()); err != nil || n != 4 || sum != hex.EncodeToString(want[:]) || string(raw) != "text" {
			t.Errorf("%s: %d, %s, %v, %q", path, n, sum, err, raw)
		}
	}
}

func TestWhatIsNotFetched(t *testing.T) {
	s, asked := served(t)
	for path, want := range map[string]string{
		"/none?secret=1": "/none: the server answered 404",
		"/round":         "more than 10 redirections",
		"/ftp":           "redirected from http to ftp://",
		"/cut":           "unexpected EOF",
		"/large":         "it has more than 10240 bytes",
	} {
		_, _, err := content.Fetch(t.Context(), nil, true, s.URL+path, file(t), 10<<10)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") || !strings.HasPrefix(err.Error(), "fetch "+s.URL) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
	*asked = nil
	if _, _, err := content.Fetch(t.Context(), nil, false, s.URL+"/file", file(t), 4); err == nil || !strings.Contains(err.Error(), "only if host stands under networks in the host's policy") || len(*asked) > 0 {
		t.Errorf("a service of this host: %v, %q", err, *asked)
	}
	if _, _, err := content.Fetch(t.Context(), nil, false, strings.Replace(s.URL, "127.0.0.1", "localhost", 1)+"/file", file(t), 4); err == nil || len(*asked) > 0 {
		t.Errorf("a service of this host, by name: %v, %q", err, *asked)
	}
}

// TestAProxyFetches: it may be this host's own, and what is written out of this host is refused all the same, also where a server sends to.
func TestAProxyFetches(t *testing.T) {
	s, asked := served(t)
	proxies := []taskfile.Var{{Name: "HTTP_PROXY", Value: s.URL}, {Name: "no_proxy", Value: "127.0.0.2"}}
	if _, _, err := content.Fetch(t.Context(), proxies, false, "http://files.example/file", file(t), 4); err != nil || fmt.Sprint(*asked) != "[http://files.example/file]" {
		t.Errorf("%v, %q", err, *asked)
	}
	for _, target := range []string{"http://169.254.169.254/file", "http://127.0.0.2/file", "http://[::1]/file", "http://files.example/there"} {
		*asked = nil
		if _, _, err := content.Fetch(t.Context(), proxies, false, target, file(t), 4); err == nil || !strings.Contains(err.Error(), "host stands under networks") || len(*asked) > 1 {
			t.Errorf("%s: %v, %q", target, err, *asked)
		}
	}
}

func TestAddressesForAll(t *testing.T) {
	for text, want := range map[string]bool{
		"192.0.2.1": true, "10.0.0.1": true, "2001:db8::1": true, "127.0.0.1": false, "127.9.9.9": false, "::1": false, "::ffff:127.0.0.1": false, "169.254.169.254": false, "fe80::1": false,
		"0.0.0.0": false, "::": false, "224.0.0.1": false, "255.255.255.255": false, "100.100.100.200": false, "168.63.129.16": false, "fd00:ec2::254": false, "fe80::1%eth0": false,
	} {
		if err := content.ForAll(netip.MustParseAddr(text)); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}
