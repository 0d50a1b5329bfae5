package rpctest

import (
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/rpc"
)

// CallerAs takes every request as one of this SPIFFE ID, for servers without TLS.
func CallerAs(spiffeID string) rpc.CallerFunc {
	return func(*http.Request) (rpc.Caller, error) {
		id, err := identity.ParseIDString(spiffeID)
		if err != nil {
			return rpc.Caller{}, fmt.Errorf("%w: %w", rpc.ErrNoCertificate, err)
		}
		return rpc.Caller{ID: id}, nil
	}
}

// RoundTrip serves one request in memory, streams included. The handler ends when the request's context does or the
// body of the response is closed.
func RoundTrip(h http.Handler, r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	in.Proto, in.ProtoMajor, in.ProtoMinor, in.RequestURI = "HTTP/2.0", 2, 0, r.URL.RequestURI()
	pr, pw := io.Pipe()
	w := &writer{pipe: pw, header: http.Header{}, started: make(chan struct{})}
	go func() {
		h.ServeHTTP(w, in)
		w.WriteHeader(http.StatusOK)
		_ = pw.Close() // never fails, by its contract
	}()
	select {
	case <-w.started:
	case <-r.Context().Done():
		_ = pr.CloseWithError(r.Context().Err()) // never fails, by its contract
		return nil, r.Context().Err()
	}
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/2.0", ProtoMajor: 2, Header: w.sent,
		Body: pr, ContentLength: -1, Request: r,
	}, nil
}

type writer struct {
	pipe    *io.PipeWriter
	header  http.Header
	once    sync.Once
	status  int
	sent    http.Header
	started chan struct{}
}

func (w *writer) Header() http.Header { return w.header }

func (w *writer) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.started)
	})
}

func (w *writer) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pipe.Write(b)
}

// Flush lets streams be served.
func (w *writer) Flush() { w.WriteHeader(http.StatusOK) }
