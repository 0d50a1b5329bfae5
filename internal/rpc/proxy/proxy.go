package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/swarmd/swarmd/consensus"
)

// errAnswer reports a leader whose answer is none.
var errAnswer = errors.New("the leader's answer is out of bounds")

// Leaders finds the leader. *consensus.Group fulfils it.
type Leaders interface {
	// WithLeader calls try while this SN leads, with nil, or with a way to the leader, again and again until that fails for
	// another reason than that the leader is gone.
	WithLeader(ctx context.Context, try func(ctx context.Context, way http.RoundTripper) error) error
}

// Call is a call of the API that the leader answers. Its body is read already.
type Call struct {
	Request *http.Request
	Body    []byte
	// MaxAnswer bounds what is taken of the answer of a leader elsewhere, in bytes.
	MaxAnswer int64
	// Here answers if this SN leads.
	Here http.Handler
	// Claims are made for a leader elsewhere.
	Claims func() (Claims, error)
}

// Do returns the leader's answer. It tries again while there is no leader or it changes, until ctx ends.
func (c *Call) Do(ctx context.Context, leaders Leaders) (*Answer, error) {
	var answer *Answer
	err := leaders.WithLeader(ctx, func(ctx context.Context, way http.RoundTripper) (err error) {
		r := c.Request.Clone(ctx)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(c.Body)), int64(len(c.Body))
		if way == nil {
			answer, err = Record(c.Here, r)
			return err
		}
		answer, err = c.elsewhere(r, way)
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

func (c *Call) elsewhere(r *http.Request, way http.RoundTripper) (*Answer, error) {
	claims, err := c.Claims()
	if err != nil {
		return nil, err
	}
	r.Header = passedOf(r.Header)
	claims.put(r.Header)
	r.RequestURI, r.Host, r.TransferEncoding, r.Close, r.TLS = "", "", nil, false, nil
	r.URL.Scheme, r.URL.Host = "http", "sn"
	res, err := way.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode < http.StatusOK || res.StatusCode > 599 {
		return nil, fmt.Errorf("%w: status %d", errAnswer, res.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, c.MaxAnswer+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) > c.MaxAnswer {
		return nil, fmt.Errorf("%w: more than %d bytes", errAnswer, c.MaxAnswer)
	}
	a := &Answer{header: res.Header, status: res.StatusCode}
	a.body.Write(body)
	for name, values := range res.Trailer { // of gRPC
		a.header[http.TrailerPrefix+name] = values
	}
	for _, name := range []string{"Connection", "Transfer-Encoding", "Trailer"} { // of this connection
		a.header.Del(name)
	}
	return a, nil
}

// passed are the headers that a leader needs: those of the protocols that clients speak, and of the API. Of each the first value.
var passed = []string{
	"Content-Type", "Content-Encoding", "Accept-Encoding", "Te",
	"Connect-Protocol-Version", "Connect-Timeout-Ms", "Connect-Content-Encoding", "Connect-Accept-Encoding",
	"Grpc-Timeout", "Grpc-Encoding", "Grpc-Accept-Encoding", "X-Grpc-Web",
	"Swarm-Id", "Swarm-Node", "Swarm-Token",
}

func passedOf(h http.Header) http.Header {
	out := http.Header{"User-Agent": {""}} // empty: none is sent
	for _, name := range passed {
		if v := h.Get(name); v != "" {
			out.Set(name, v)
		}
	}
	if out.Get("Te") != "trailers" { // HTTP/2 has no other
		out.Del("Te")
	}
	return out
}

// Answer is a whole answer to a call. It is the http.ResponseWriter of its handler first.
type Answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *Answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *Answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write implements http.ResponseWriter.
func (a *Answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

// WriteTo sends the answer.
func (a *Answer) WriteTo(w http.ResponseWriter) {
	h := w.Header()
	for name, values := range a.header {
		if _, known := h[name]; !known {
			h[name] = values
		}
	}
	if a.status != 0 {
		w.WriteHeader(a.status)
	}
	_, _ = w.Write(a.body.Bytes()) // the client is gone: nobody to tell
}

type gaveUp struct{}

// Record serves a request in memory. It fails with consensus.ErrNotLeader if the handler found so: see NotLeader.
func Record(h http.Handler, r *http.Request) (*Answer, error) {
	a, lost := &Answer{header: http.Header{}}, false
	h.ServeHTTP(a, r.WithContext(context.WithValue(r.Context(), gaveUp{}, &lost)))
	if lost {
		return nil, consensus.ErrNotLeader
	}
	if err := r.Context().Err(); err != nil {
		return nil, err // Nobody waits for the answer, which may say just that.
	}
	return a, nil
}

// NotLeader tells who records an answer that another SN is to give it.
func NotLeader(ctx context.Context) {
	if lost, ok := ctx.Value(gaveUp{}).(*bool); ok {
		*lost = true
	}
}
