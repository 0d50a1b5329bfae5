package rendezvous_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/rendezvous"
)

// lines are what a server has written.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) say(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, line)
}

// serves starts a server for ranks at these addresses.
func serves(t *testing.T, ranks ...string) (at netip.AddrPort, said *lines) {
	t.Helper()
	said = &lines{}
	l, err := rendezvous.Listen(t.Context(), netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	s := &rendezvous.Server{Store: rendezvous.NewStore(len(ranks)), Say: said.say}
	for _, r := range ranks {
		s.Ranks = append(s.Ranks, netip.MustParseAddr(r))
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return netip.MustParseAddrPort(l.Addr().String()), said
}

// asks sends the bytes that Horovod's client does, and returns the answer up to its end.
func asks(t *testing.T, at netip.AddrPort, method, path, body string) (status, got string) {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	request := method + " " + path + " HTTP/1.1\r\nHost: " + at.Addr().String() + "\r\nContent-Length: " + itoa(len(body)) + "\r\n\r\n" + body
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
	if err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || !bytes.Contains(raw, []byte("\r\nContent-Length: ")) {
		t.Errorf("Horovod's client could not read %q: %v", raw, err)
	}
	return res.Status, string(answer)
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}

// TestHorovodsRequests are those of two ranks that meet.
func TestHorovodsRequests(t *testing.T) {
	t.Parallel()
	at, said := serves(t, "127.0.0.1", "10.0.0.2")
	const key = "/local_node-1_process_set_hash_8b1f/0"
	const another = "it has another value, and ranks say once where they are\n"
	for _, tt := range []struct{ method, path, body, status, got string }{
		{"GET", key, "", "404 Not Found", "nothing has that key\n"},
		{"PUT", key, "\x00\x7f\xff address", "200 OK", ""},
		{"GET", key, "", "200 OK", "\x00\x7f\xff address"},
		{"PUT", key, "\x00\x7f\xff address", "200 OK", ""},
		{"PUT", key, "another", "409 Conflict", another},
		{"PUT", "/global/rank_0", "node-0", "200 OK", ""},
		{"GET", key, "", "200 OK", "\x00\x7f\xff address"},
		{"PUT", "/a/other", "x", "200 OK", ""},
		{"PUT", "/a/other", "y", "200 OK", ""},
		{"GET", "/a/other", "", "200 OK", "y"},
		{"DELETE", key, "", "200 OK", ""},
		{"GET", key, "", "404 Not Found", "nothing has that key\n"},
		{"GET", "/global/rank_0", "", "200 OK", "node-0"},
		{"GET", "/global", "", "400 Bad Request", "want /SCOPE/KEY\n"},
		{"GET", "/", "", "400 Bad Request", "want /SCOPE/KEY\n"},
		{"GET", "/a/b/c", "", "400 Bad Request", "want /SCOPE/KEY\n"},
		{"GET", "/" + strings.Repeat("s", 600) + "/b", "", "400 Bad Request", "want /SCOPE/KEY\n"},
		{"POST", "/a/b", "x", "405 Method Not Allowed", "want GET, PUT or DELETE\n"},
		{"PUT", "/a/b", strings.Repeat("x", 4<<10+2*256+1), "413 Request Entity Too Large", "http: request body too large\n"},
	} {
		if status, got := asks(t, at, tt.method, tt.path, tt.body); status != tt.status || got != tt.got {
			t.Errorf("%s %.40s: %s %q, want %s %q", tt.method, tt.path, status, got, tt.status, tt.got)
		}
	}
	if len(said.all) != 2 || !strings.Contains(said.all[1], "refused a value that a rank has put into the rendezvous under a/b, or removed there: http: request body too large") {
		t.Errorf("%q", said.all)
	}
}

// TestWhatRanksSayOfThemselves holds that it is taken from their address alone, and that refusals do not fill an output.
func TestWhatRanksSayOfThemselves(t *testing.T) {
	t.Parallel()
	at, said := serves(t, "10.0.0.2", "127.0.0.1")
	for _, tt := range []struct{ method, path, status string }{
		{"PUT", "/global/0", "403 Forbidden"},
		{"PUT", "/global/1", "200 OK"},
		{"PUT", "/global/rank_0", "403 Forbidden"},
		{"PUT", "/global/rank_1", "200 OK"},
		{"PUT", "/global/2", "403 Forbidden"},
		{"PUT", "/global/rank_x", "403 Forbidden"},
		{"PUT", "/global/99999999999999999999", "403 Forbidden"},
		{"DELETE", "/global/0", "403 Forbidden"},
		{"GET", "/global/0", "404 Not Found"},
		{"DELETE", "/global/1", "200 OK"},
		{"PUT", "/global_process_set_hash_1/0", "200 OK"}, // a place in a set
	} {
		if status, _ := asks(t, at, tt.method, tt.path, "x"); status != tt.status {
			t.Errorf("%s %s: %s, want %s", tt.method, tt.path, status, tt.status)
		}
	}
	for range 20 {
		asks(t, at, "PUT", "/global/0", "x")
	}
	said.mu.Lock()
	defer said.mu.Unlock()
	if n := len(said.all); n != 16 || !strings.HasSuffix(said.all[15], "is the address of another rank; further refusals are not reported") {
		t.Errorf("%d lines, %q", n, said.all)
	}
}

// TestRanksKeepTheirKeys: also in a scope of a set of ranks, for as long as it lasts.
func TestRanksKeepTheirKeys(t *testing.T) {
	said := ""
	s := &rendezvous.Server{
		Store: rendezvous.NewStore(2), Ranks: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}, Say: func(line string) { said = line },
	}
	const key = "/global_process_set_hash_1/1"
	for _, tt := range []struct {
		method, from, path string
		status             int
	}{
		{"PUT", "10.0.0.2:1000", key, http.StatusOK},
		{"PUT", "10.0.0.1:1000", key, http.StatusConflict},
		{"DELETE", "10.0.0.1:1000", key, http.StatusConflict},
		{"DELETE", "10.0.0.1:1000", "/global_process_set_hash_1/0", http.StatusOK}, // which is not there
		{"GET", "10.0.0.1:1000", key, http.StatusOK},
		{"DELETE", "10.0.0.2:1001", key, http.StatusOK},
		{"GET", "10.0.0.1:1000", key, http.StatusNotFound},
	} {
		r := httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, strings.NewReader("x"))
		r.RemoteAddr = tt.from
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != tt.status {
			t.Errorf("%s %s from %s: %d, want %d", tt.method, tt.path, tt.from, w.Code, tt.status)
		}
	}
	if !strings.HasSuffix(said, "under global_process_set_hash_1/1, or removed there: it was put there from another address") {
		t.Errorf("it says %q", said)
	}
}

// far is a connection from an address.
type far struct {
	net.Conn
	from string
}

// RemoteAddr implements net.Conn.
func (f far) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(f.from)) }

// network is a listener whose connections come over a channel.
type network struct {
	conns chan net.Conn
	once  sync.Once
}

// Accept implements net.Listener.
func (n *network) Accept() (net.Conn, error) {
	if c, is := <-n.conns; is {
		return c, nil
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (n *network) Close() error {
	n.once.Do(func() { close(n.conns) })
	return nil
}

// Addr implements net.Listener.
func (n *network) Addr() net.Addr { return &net.TCPAddr{} }

// TestAHostThatKeepsConnectionsOpen: the number that it may have is bounded, and the other hosts keep theirs.
func TestAHostThatKeepsConnectionsOpen(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	l := &network{conns: make(chan net.Conn)}
	s := &rendezvous.Server{Store: rendezvous.NewStore(2), Ranks: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	dial := func(from string) net.Conn {
		near, c := net.Pipe()
		_ = near.SetDeadline(time.Now().Add(time.Minute))
		l.conns <- far{c, from}
		return near
	}
	for range 24 {
		defer dial("10.0.0.2:1").Close()
	}
	if _, err := dial("10.0.0.2:1").Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // as it is
		t.Errorf("one more ends with %v", err)
	}
	other := dial("10.0.0.1:1")
	if _, err := io.WriteString(other, "GET /global/0 HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if raw, err := io.ReadAll(other); err != nil || !bytes.HasPrefix(raw, []byte("HTTP/1.1 404 ")) {
		t.Errorf("another host is answered %q, %v", raw, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestLoopbackIsOneMachine: ranks at any addresses of it are answered at all.
func TestLoopbackIsOneMachine(t *testing.T) {
	t.Parallel()
	at, _ := serves(t, "127.144.1.11", "127.144.1.21")
	if status, _ := asks(t, at, "PUT", "/global/0", "x"); status != "200 OK" {
		t.Error(status)
	}
}

// TestStrangersAreRefused: whoever has another address than the ranks, and each is named once.
func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	at, said := serves(t, "10.0.0.1", "10.0.0.2")
	for range 3 {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", at.String())
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(c, "GET /global/0 HTTP/1.1\r\nHost: x\r\n\r\n")
		if raw, _ := io.ReadAll(c); len(raw) > 0 {
			t.Errorf("a stranger is answered %q", raw)
		}
		_ = c.Close()
	}
	said.mu.Lock()
	defer said.mu.Unlock()
	if len(said.all) != 1 || !strings.HasPrefix(said.all[0], "refused a connection of 127.0.0.1 to the rendezvous, which is the address of no member") {
		t.Errorf("%q", said.all)
	}
}

// TestRanksThatSayNothing keep the others from nothing as long as there are not many of them, and then for a while.
func TestRanksThatSayNothing(t *testing.T) {
	t.Parallel()
	at, _ := serves(t, "127.0.0.1", "10.0.0.2")
	for range 20 {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", at.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if status, _ := asks(t, at, "PUT", "/global/0", "x"); status != "200 OK" {
		t.Error(status)
	}
}

// FuzzRequest: whatever a rank sends, what it left before is there, and nothing breaks.
func FuzzRequest(f *testing.F) {
	f.Add("PUT", "/global/0", []byte("address"))
	f.Add("DELETE", "/global/0", []byte(nil))
	f.Add("GET", "/local_x/rank_0", []byte(nil))
	f.Add("PATCH", "//", []byte("x"))
	f.Fuzz(func(t *testing.T, method, path string, body []byte) {
		s := &rendezvous.Server{Store: rendezvous.NewStore(2)}
		if err := s.Store.Put("kept", "here", netip.MustParseAddr("10.0.0.2"), []byte("x")); err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", bytes.NewReader(body))
		r.Method, r.URL.Path = method, path
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		scope, key, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		got, is := s.Store.Get(scope, key)
		if method == http.MethodPut && w.Code == http.StatusOK && (!is || !bytes.Equal(got, body)) {
			t.Errorf("%s has %q, want %q", path, got, body)
		}
		if _, is := s.Store.Get("kept", "here"); !is {
			t.Errorf("%s %s has removed what is another rank's", method, path)
		}
	})
}
